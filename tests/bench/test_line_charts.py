"""Charts of growth: every line is drawn, and can be read."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("plots")


def test_lines_are_drawn_for_every_series_and_text_is_escaped(plots: ModuleType) -> None:
    lines = {"clock": [(1e3, 1.0), (1e6, 100.0)], "floor <0>": [(1e3, 0.1), (1e6, 0.0)]}
    drawn = plots.line_charts("a & b", {"recall < 1": lines, "add": {"clock": [(1e3, 2.0)]}})
    root = ElementTree.fromstring(drawn)
    assert len(root.findall("{*}path[@stroke-width]")) == 3
    said = [one.text for one in root.findall("{*}text")]
    assert {"a & b", "recall < 1", "floor <0>", "1 k", "1 M", "100"} <= set(said)


def test_numbers_at_the_ends_of_lines_do_not_cover_each_other(plots: ModuleType) -> None:
    drawn = plots.line_charts("", {"one": {name: [(1.0, 1.0), (10.0, 5.0)] for name in "abc"}})
    ends = [one for one in ElementTree.fromstring(drawn).findall("{*}text") if one.text == "5"]
    places = sorted(float(one.attrib["y"]) for one in ends)
    assert len(places) == 3
    assert all(below - above >= 9 for above, below in pairwise(places))
