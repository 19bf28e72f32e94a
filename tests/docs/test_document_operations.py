"""Each column that the five documents ask for is written by one operation and shown by another: both are tried.

docs/source-map.yaml says which. One walk goes through all of them; then each field is looked for in what the operation
was given that writes it, and in what the operation answered that shows it.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import recollect
from recollect import cite
from recollect.errors import NotFound

CHECKOUT = Path(__file__).parents[2]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("source_map_operations", CHECKOUT / "docs" / "source_map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


source_map = _generator()
TARGETS = sorted({target for one in source_map.columns(source_map.load()) for target in one.carried_by})


@dataclass
class Walk:
    """A memory whose calls are noted, with what they were given and what they answered."""

    mem: Any
    calls: list[tuple[str, Any, Any]] = field(default_factory=list)

    def __call__(self, operation: str, **fields: Any) -> Any:
        reply = self.mem.call(operation, **fields)
        given = json.loads(json.dumps(fields, default=lambda one: one.model_dump(mode="json")))
        self.calls.append((operation, given, reply.model_dump(mode="json")))
        return reply


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("documents")
    with recollect.open(folder / "store.db", embedder="hash", citation_root=folder) as mem:
        asking = mem.within(actor="ann")
        asking._scope = replace(asking._scope, address="203.0.113.9")
        go = Walk(asking)
        owners(go)
        talk(go)
        work(go)
        memories(go, folder)
        learning(go)
        data(go, folder)
        removals(go)
        yield go


def owners(go: Walk) -> None:
    go("organization.add", id="acme", name="Acme")
    go("organization.suspend", id="acme")
    go("organization.show", id="acme")
    go(
        "user.add", id="ann", name="Ann", email="ann@example.com", timezone="Asia/Bangkok",
        profile_data={"team": "search"}, preferences={"theme": "dark"},
    )  # fmt: skip
    go("user.add", id="bob", name="Bob")
    go("user.revise", id="bob", status="suspended", password="a long enough password")
    for id in ("ann", "bob"):
        go("user.show", id=id)
    go("project.add", id="atlas", name="Atlas", description="Maps of the coast", owner="ann")
    go("project.show", id="atlas")
    go(
        "agent.add", id="scout", name="Scout", type="react", description="Looks around", system="Be brief",
        topic="maps", directives=["never guess"], config_overrides={"retries": 2}, llm_config={"model": "large"},
        embedding_config={"model": "small"}, tool_rules=[{"tool": "look"}], mcp_tools=["look"],
        metadata={"colour": "red"},
    )  # fmt: skip
    go(
        "block.add", id="human", label="human", value="Ann likes maps", limit=900, description="About her", user="ann",
        agents=["scout"], is_template=False, metadata={"tone": "warm"},
    )  # fmt: skip
    go("agent.add", id="idle", name="Idle")
    go("block.add", id="form", label="persona", value="Be kind", is_template=True, template_name="kind")
    go("block.add", id="spare", label="notes", value="Nothing yet")
    for id in ("human", "form"):
        go("block.show", id=id)
    go(
        "tool.add", id="look", name="look", description="Looks", json_schema={"type": "object"}, source_type="python",
        source_code="def look(): ...", tags=["eyes"], metadata={"cost": 1}, agents=["scout"],
    )  # fmt: skip
    go("tool.show", id="look")


def talk(go: Walk) -> None:
    go(
        "session.add", id="monday", title="Monday", type="task", user="ann", agent="scout", project="atlas",
        metadata={"room": 3},
    )  # fmt: skip
    go("remember", content="The map is of the coast", id="map")
    said = go(
        "message.add", role="assistant", text="Here is the map", session="monday", user="ann", agent="scout",
        content=[{"type": "text", "text": "Here is the map"}], model="large", name="scout",
        tool_calls=[{"id": "c1", "name": "look"}], step_id="s1", otid="o1", group_id="g1", sender_id="scout",
        references=[{"type": "memory", "id": "map"}],
    )  # fmt: skip
    answer = go(
        "message.add", role="tool", text="a coast", session="monday", tool_call_id="c1", tool_returns=[{"status": "ok"}]
    )
    for id in (said.id, answer.id):
        go("message.show", id=id)
    go("agent.in_context", id="scout", messages=[said.id])
    go("agent.show", id="scout")
    go("state.save", agent="scout", session="monday", data={"at": "pier"}, expires_at="2999-01-01T00:00:00Z")
    go("state.load", agent="scout", session="monday")
    go("session.end", id="monday", summary="The map was shown")
    go("session.show", id="monday")


def work(go: Walk) -> None:
    message = next(reply for name, _, reply in go.calls if name == "message.add")
    run = go("run.start", goal="Find the pier", agent="scout", message=message["id"], steps=["look", "tell"])
    lease = go("run.claim", worker="w1", id=run.id)
    go(
        "run.propose", id=run.id, fence=lease.fence, tool="look", arguments={"at": "coast"},
        thoughts={"text": "look first"}, reasoning="it is near", plan=["look"], snapshot={"weather": "clear"},
    )  # fmt: skip
    desk = go("workspace.add", agent="scout", name="desk")
    go("workspace.show", id=desk.id)
    go("workspace.write", id=desk.id, path="map.txt", text="a map\n", media_type="text/plain")
    go("workspace.files", id=desk.id)
    go(
        "run.record", id=run.id, fence=lease.fence, outcome="success", summary="A pier", output={"found": True},
        artifacts=[{"workspace": desk.id, "path": "map.txt"}],
    )  # fmt: skip
    go("run.propose", id=run.id, fence=lease.fence, tool="tell", arguments={})
    go("run.record", id=run.id, fence=lease.fence, outcome="error", error={"reason": "nobody listens"})
    shown = go("run.show", id=run.id)
    for step in shown.timeline:
        go("cycle.show", agent="scout", index=step.index)
    go("workspace.snapshot", id=desk.id, label="after", cycle=shown.timeline[0].cycle)
    go("workspace.snapshots", id=desk.id)


def memories(go: Walk, folder: Path) -> None:
    (folder / "limits.ini").write_text("retries = 5\n")
    git = shutil.which("git") or "git"
    for command in ("init -q", "add limits.ini", "-c user.name=A -c user.email=a@b.c commit -q -m first"):
        subprocess.run([git, *command.split()], cwd=folder, check=True)
    made = subprocess.run([git, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    entry = go("log", limit=1).entries[0]
    cycle = next(reply for name, _, reply in go.calls if name == "run.show")["timeline"][0]["cycle"]
    evidence = [
        cite.commit(made.stdout.strip(), repo=".", message="first", diff_summary="adds limits"),
        cite.log(entry.id, timestamp=entry.timestamp, context="as logged"),
        cite.user("ann", "said so"),
        cite.file("limits.ini", lines=1),
        cite.url("https://example.com/a", title="A page", crawled_at=datetime(2026, 1, 2, tzinfo=UTC)),
    ]
    first = go(
        "remember", content={"text": "Five retries", "unit": "times"}, kind="observation", cites=evidence,
        tags=["limits"], user="ann", agent="scout", session="monday", project="atlas", cycle=cycle,
        source_agent="scout", scope="project", level="summary", confidence=0.75, priority=7, importance=0.6,
        metadata={"origin": "review"}, expires_at="2999-01-01T00:00:00Z", vector=[0.6, 0.8],
        vector_model="own", namespaces=["long_term"],
    )  # fmt: skip
    second = go("remember", content="Retries are bounded")
    go("relate", id=second.id, to=first.id, type="supports", metadata={"weight": 0.5})
    go("relations", of=first.id)
    go("embedding.add", id=second.id, vector=[1.0, 0.0], model="own", namespace="long_term")
    go("embedding.list", id=second.id, vectors=True)
    with pytest.raises(NotFound):
        go("show", id="nothing")
    go("recall", query="retries", user="ann")
    go.mem._core.journal.flush()
    for id in (first.id, second.id):
        go("show", id=id)
    go("citation.list")
    go("log", limit=1000)


def learning(go: Walk) -> None:
    for number in range(4):
        episode = go(
            "episode.record", task=f"Row boat {number} to the pier", success=number != 2, action_plan=["untie", "row"],
            action_output=f"{number} minutes", initial_state_snapshot="low tide", critique="mind the wind",
        )  # fmt: skip
        go("show", id=episode.id)
    go("pattern.learn")
    pattern = go.mem.list(kinds=["pattern"]).memories[0].id
    used = go("pattern.apply", id=pattern, task="Row boat 9 to the pier")
    go("pattern.report", application=used.application, success=True)
    go("pattern.show", id=pattern)
    go("show", id=pattern)
    go("session.add", id="tuesday", title="Tuesday")
    for number in range(6):
        go("message.add", role="user", text=f"Boat {number} is at the pier", session="tuesday")
    made = go("summary.make", session="tuesday")
    go("summary.show", id=made.id)
    go("show", id=made.id)


def data(go: Walk, folder: Path) -> None:
    (folder / "boats.csv").write_text("name,length\nSwan,7\nHeron,9\n")
    source = go("source.add", path=str(folder / "boats.csv"), description="Boats", project="atlas")
    go("source.revise", id=source.id, description="All boats", tables={"boats": "A row per boat"})
    go("source.show", id=source.id, fields=True)
    run = go("ask", question="how many boats are there?", sources=[source.id])
    go("query.judge", run=run.run, verdict="right")
    go("query.patterns")


def removals(go: Walk) -> None:
    go("session.archive", id="monday")
    go("session.show", id="monday")
    go("forget", id="map")
    go("list", forgotten=True)
    said = go("message.add", role="user", text="A slip", session="tuesday")
    for noun, id in (("message", said.id), ("block", "spare"), ("tool", "look"), ("agent", "idle"), ("user", "bob")):
        go(f"{noun}.remove", id=id)
        go(f"{noun}.list", removed=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_field_is_written_and_shown_by_the_operations_that_the_map_names(target: str, walk: Walk) -> None:
    way = source_map.way(target)
    written = [(given, reply) for operation, given, reply in walk.calls if operation == way.write]
    shown = [
        value for operation, _, reply in walk.calls if operation == way.show for value in members(reply, way.named)
    ]
    assert written, f"nothing calls {way.write}"
    assert [one for one in shown if one not in (None, "", [], {})], f"{way.show} shows no {way.named}"
    if not way.is_made:
        given = [value for request, _ in written for value in members(request, way.named)]
        assert given, f"{way.write} takes no {way.named}"
        assert any(same(one, other) for one in given for other in shown), f"{way.show} shows another {way.named}"


def members(value: Any, name: str) -> Iterator[Any]:
    """The values under this name, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name:
                yield inner
            yield from members(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner, name)


def same(given: Any, shown: Any) -> bool:
    """Moments are shown in the zone of whoever asks, and texts as the content of a memory."""
    if isinstance(given, str) and isinstance(shown, str) and given[:1].isdigit():
        with suppress(ValueError):
            return datetime.fromisoformat(given) == datetime.fromisoformat(shown)
    return bool(given == shown or (isinstance(shown, dict) and shown.get("text") == given))
