"""The hash tree says what differs, whatever way it grew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.domain.hash_tree import Entries, Entry, bucket_of, differences, grown, levels
from recollect.errors import DamagedData

# Few names, so that a path is changed and removed again; paths with one bucket are found below.
FILES = st.dictionaries(st.sampled_from([f"f{n}" for n in range(300)]), st.integers(0, 3), max_size=40)


class Forest:
    """Nodes in a dictionary."""

    def __init__(self) -> None:
        self.nodes: dict[str, Entries] = {}

    def load(self, ids: Sequence[str]) -> dict[str, Entries]:
        return {id: self.nodes[id] for id in ids if id in self.nodes}

    def grow(self, root: str | None, files: dict[str, int], changed: set[str]) -> str | None:
        leaves: dict[str, list[Entry]] = {bucket_of(path): [] for path in changed}
        for path, content in files.items():
            if bucket_of(path) in leaves:
                leaves[bucket_of(path)].append(Entry(path, f"c{content}", content, "text/plain"))
        after, made = grown(root, leaves, self.load)
        self.nodes |= made
        return after


@settings(max_examples=60, deadline=None)
@given(st.lists(FILES, min_size=2, max_size=5))
def test_growing_step_by_step_is_growing_at_once(states: list[dict[str, int]]) -> None:
    forest, before = Forest(), dict[str, int]()
    root: str | None = None
    for after in states:
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        former, root = root, forest.grow(root, after, changed) if changed else root
        assert root == forest.grow(None, after, set(after))
        assert {one.path for one in differences(former, root, forest.load)} == changed
        for one in differences(former, root, forest.load):
            assert (one.before.size if one.before else None) == before.get(one.path)
            assert (one.after.size if one.after else None) == after.get(one.path)
        before = after
    *_, leaves = levels([root] if root else [], forest.load)
    assert {entry[0]: entry[2] for entries in leaves.values() for entry in entries} == before


def test_no_files_have_no_tree() -> None:
    forest = Forest()
    root = forest.grow(None, {"a": 1}, {"a"})
    assert root is not None
    assert forest.grow(root, {}, {"a"}) is None


def test_a_changed_or_missing_node_is_noticed() -> None:
    forest = Forest()
    root = forest.grow(None, {"a": 1, "b": 2}, {"a", "b"})
    for id in list(forest.nodes):
        kept = forest.nodes[id]
        forest.nodes[id] = [*kept, ["zz", "x", 0, ""]]
        with pytest.raises(DamagedData):
            list(levels([root or ""], forest.load))
        del forest.nodes[id]
        with pytest.raises(DamagedData):
            list(levels([root or ""], forest.load))
        forest.nodes[id] = kept
    assert len(list(levels([root or ""], forest.load))) == 4
