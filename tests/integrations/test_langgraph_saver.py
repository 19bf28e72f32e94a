"""LangGraph's checkpointer on Recollect: conformance, sharing, retention, concurrency, resuming after a kill."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import recollect
from chat_graph import BEGIN, State, chat, chatting, config
from postgres_server import server
from recollect.domain.audit import AccessLog
from recollect.domain.checkpoints import Checkpoint, CheckpointItems, CheckpointLine, CheckpointWrites
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.integrations.langgraph import RecollectSaver
from recollect.interfaces.cli import main
from recollect.ports.query import Compare, Query, equal
from recollect.services.frameworks.checkpoint_reading import CheckpointPage
from recollect.services.frameworks.checkpoints import PutCheckpointRequest
from seeds import SEED, SOAK

KINDS = (CheckpointLine, Checkpoint, CheckpointItems, CheckpointWrites)


def counted(mem: Any) -> dict[str, int]:
    return {kind.__name__: mem._core.store.count(mem._scope, Query(kind)) for kind in KINDS}


def address(kind: str, tmp_path: Path) -> str:
    return {"memory": "memory://", "sqlite": str(tmp_path / "t.db")}.get(kind) or server().new_store()


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("keep", [None, 50])
def test_every_capability_of_the_conformance_kit_passes(store: str, keep: int | None, tmp_path: Path) -> None:
    with recollect.open(address(store, tmp_path), embedder="hash") as mem:

        async def fresh() -> AsyncIterator[Any]:
            yield RecollectSaver(mem, keep=keep)

        report = asyncio.run(validate(RegisteredCheckpointer("recollect", fresh)))  # type: ignore[arg-type]
        assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
        assert set(report.results) == {capability.value for capability in Capability}
        assert mem.verify().sound


# -- a real graph ----------------------------------------------------------------------------------------------------


def test_a_graph_remembers_and_travels_in_time(mem: Any) -> None:
    graph = chatting(RecollectSaver(mem), 5)
    assert len(graph.invoke(BEGIN, config())["messages"]) == 10
    history = list(graph.get_state_history(config()))
    assert [len(one.values.get("messages", [])) for one in history] == [10, 8, 6, 4, 2, 0, 0]
    assert history[2].tasks[0].result is not None
    past = next(one for one in history if one.values["step"] == 3)
    forked = graph.invoke(None, past.config)
    assert [one.id for one in forked["messages"]] == [f"{who}{n}" for n in range(1, 6) for who in "qa"]


def test_asynchronous_graphs_work_alike(mem: Any) -> None:
    async def run() -> list[int]:
        graph = chatting(RecollectSaver(mem), 3)
        await graph.ainvoke(BEGIN, config())
        return [len(one.values.get("messages", [])) async for one in graph.aget_state_history(config())]

    assert asyncio.run(run()) == [6, 4, 2, 0, 0]


def test_an_interrupted_graph_goes_on_with_the_answer(mem: Any) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"notes": interrupt("may I?")}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    first = builder.compile(checkpointer=RecollectSaver(mem)).invoke(BEGIN, config())
    assert first["__interrupt__"][0].value == "may I?"
    again = builder.compile(checkpointer=RecollectSaver(mem))  # as after a restart
    assert again.invoke(Command(resume="yes"), config())["notes"] == "yes"


def test_bytes_per_step_stay_flat_while_messages_grow(mem: Any) -> None:
    written: list[int] = []
    saver = RecollectSaver(mem)
    put = saver._checkpoints.put

    def watched(*given: Any, **fields: Any) -> Any:
        written.append(len(fields["body"]) + sum(len(one) for some in fields["items"].values() for one in some))
        return put(*given, **fields)

    saver._checkpoints.put = watched  # type: ignore[method-assign]
    chatting(saver, 100).invoke(BEGIN, config())
    early, late = sum(written[10:20]), sum(written[-10:])
    assert late < 1.2 * early
    assert counted(mem)["CheckpointItems"] < 40  # small runs were folded


def test_a_message_changed_in_place_is_saved(mem: Any) -> None:
    def whisper(state: State) -> dict[str, Any]:
        state["messages"][0].content = "changed"
        state["messages"][0].additional_kwargs["also"] = [1]
        return {"messages": [HumanMessage("new " * 50, id="new")], "step": 1}

    builder = StateGraph(State)
    builder.add_node("whisper", whisper)
    builder.add_edge(START, "whisper")
    saver = RecollectSaver(mem)
    start: list[AnyMessage] = [HumanMessage(f"old {number} " * 20, id=str(number)) for number in range(3)]
    builder.compile(checkpointer=saver).invoke(State(messages=start, step=0, notes=""), config())
    read = RecollectSaver(mem).get_tuple(config())
    assert read is not None
    messages = read.checkpoint["channel_values"]["messages"]
    assert (messages[0].content, messages[0].additional_kwargs) == ("changed", {"also": [1]})
    assert [one.id for one in messages] == ["0", "1", "2", "new"]


def test_an_array_that_came_into_a_member_is_saved(mem: Any) -> None:
    saver = RecollectSaver(mem)
    where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    members: list[Any] = [{"data": "x" * 200}, {"data": "y" * 200}]
    for _ in range(2):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"members": members}
        where = saver.put(where, checkpoint, {}, {"members": 1})
        members[0]["data"] = numpy.arange(3)
    read = RecollectSaver(mem).get_tuple(where)
    assert read is not None
    first, second = read.checkpoint["channel_values"]["members"]
    assert (list(first["data"]), second) == ([0, 1, 2], members[1])


# -- the same as the reference ---------------------------------------------------------------------------------------

texts = st.one_of(st.text(max_size=5), st.text(min_size=60, max_size=90))
edits = st.lists(
    st.tuples(
        st.sampled_from("append append append replace remove trim rewrite mutate value reopen fork".split()), texts
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=edits, seed=st.integers(0, 1000), keep=st.sampled_from([None, 1, 3]))
def test_whatever_is_put_is_read_as_from_the_reference(
    edits: list[tuple[str, str]], seed: int, keep: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    with recollect.open("memory://", embedder="hash") as mem:
        ours, reference = RecollectSaver(mem, keep=keep), InMemorySaver()
        messages: list[Any] = []
        value: Any = None
        parent: str | None = None
        ids: list[str] = []
        for number, (edit, text) in enumerate(edits):
            messages = list(messages)
            if edit == "append":
                messages += [HumanMessage(text, id=str(number)), text]
            elif edit == "replace" and messages:
                messages[chance.randrange(len(messages))] = AIMessage(text, id=f"r{number}")
            elif edit == "remove" and messages:
                del messages[chance.randrange(len(messages))]
            elif edit == "trim":
                messages = messages[len(messages) // 2 :]
            elif edit == "rewrite":
                messages = messages[::-1]
            elif edit == "mutate":
                for one in messages[:1]:
                    if isinstance(one, HumanMessage):
                        one.content = text
            elif edit == "value":
                value = {"text": text * 5, "n": number}
            elif edit == "reopen":
                ours = RecollectSaver(mem, keep=keep)
                found = ours.get_tuple(config())
                messages = found.checkpoint["channel_values"]["messages"] if found else messages
            elif edit == "fork" and ids:
                parent = chance.choice(ids[-keep:] if keep else ids)
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": messages, "value": value, "n": number}
            checkpoint["channel_versions"] = {"messages": number + 1, "value": number + 1, "n": number + 1}
            where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent}}
            metadata: Any = {"source": "loop", "step": number, "parents": {}}
            for saver in (ours, reference):
                saver.put(where, checkpoint, metadata, checkpoint["channel_versions"])
            parent = checkpoint["id"]
            ids.append(parent)
        mine, theirs = list(ours.list(config())), list(reference.list(config()))
        kept = keep or len(ids)
        assert min(len(ids), kept) <= len(mine) <= kept + kept // 2
        for one, other in zip(mine, theirs, strict=False):
            assert one.checkpoint == other.checkpoint
            assert one.metadata == other.metadata
            assert one.parent_config == other.parent_config
            assert ours.get_tuple(one.config).checkpoint == one.checkpoint
        assert mem.verify().sound


# -- retention -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2, 3, 10])
def test_retention_bounds_what_is_kept(mem: Any, keep: int) -> None:
    saver, most = RecollectSaver(mem, keep=keep), keep + keep // 2
    put, seen = saver.put, list[int]()

    def watched(*given: Any) -> Any:
        done = put(*given)
        seen.append(counted(mem)["Checkpoint"])
        return done

    saver.put = watched  # type: ignore[method-assign, assignment]
    chatting(saver, 60).invoke(BEGIN, config(), durability="sync")
    assert max(seen) == most
    assert min(seen[keep:]) == keep
    assert counted(mem)["CheckpointWrites"] <= most
    assert mem._core.store._read(mem._scope, "SELECT count(*) FROM recollect_gone", ()) == [(0,)]
    assert len(chatting(RecollectSaver(mem), 61).invoke({"notes": "more"}, config())["messages"]) == 122


def test_the_access_log_does_not_grow_with_every_step(mem: Any) -> None:
    chatting(RecollectSaver(mem, keep=2), 5).invoke(BEGIN, config("t"))
    mem._core.journal.flush()
    entries = mem._core.store.find(mem._scope, Query(AccessLog, (Compare("operation", "!=", "read"),))).records
    assert [(one.operation, one.action, one.error_message) for one in entries] == []
    with pytest.raises(InvalidInput):
        mem.checkpoint.write("t", "1", task="x", slots=[(0, "c")], values=[])
    mem._core.journal.flush()
    assert mem._core.store.count(mem._scope, Query(AccessLog, (equal("success", False),))) == 1


def test_items_that_no_checkpoint_uses_are_let_go(mem: Any) -> None:
    def forget(state: State) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id="__remove_all__"), *chat(state)["messages"]], "step": state["step"] + 1}

    builder = StateGraph(State)
    builder.add_node("forget", forget)
    builder.add_edge(START, "forget")
    builder.add_conditional_edges("forget", lambda state: "forget" if state["step"] < 200 else END)
    graph = builder.compile(checkpointer=RecollectSaver(mem, keep=2))
    graph.invoke(BEGIN, config())
    assert counted(mem)["CheckpointItems"] < 6
    assert [one.id for one in graph.get_state(config()).values["messages"]] == ["q200", "a200"]


def test_old_checkpoints_go_by_age_but_the_newest_stays(mem: Any) -> None:
    chatting(RecollectSaver(mem), 5).invoke(BEGIN, config())
    assert mem.checkpoint.prune(keep_seconds=3600).checkpoints == 0
    assert mem.checkpoint.prune(keep_seconds=1e-6).checkpoints == 6
    graph = chatting(RecollectSaver(mem, keep_for=timedelta(microseconds=1)), 8)
    assert len(graph.invoke({"notes": ""}, config())["messages"]) == 16
    assert counted(mem)["Checkpoint"] == 1


def appended(state: list[str], writes: list[list[str]]) -> list[str]:
    return state + [one for some in writes for one in some]


class Log(TypedDict):
    lines: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=7)]
    step: int


def logging(saver: Any, until: int) -> Any:
    builder = StateGraph(Log)
    builder.add_node("log", lambda state: {"lines": [f"line {state['step']}"], "step": state["step"] + 1})
    builder.add_edge(START, "log")
    builder.add_conditional_edges("log", lambda state: "log" if state["step"] < until else END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("keep", [1, 2, None])
@pytest.mark.parametrize("until", [1, 5, 7, 8, 20])
def test_what_a_delta_channel_needs_of_its_ancestors_is_kept(mem: Any, keep: int | None, until: int) -> None:
    saver = RecollectSaver(mem, keep=keep)
    graph = logging(saver, until)
    graph.invoke({"lines": [], "step": 0}, config())
    if keep is None:
        saver.prune(["t"])
    assert counted(mem)["Checkpoint"] <= 12
    again = logging(RecollectSaver(mem), until)
    assert again.get_state(config()).values["lines"] == [f"line {number}" for number in range(until)]


# -- keys, tenants, writers ------------------------------------------------------------------------------------------

HOSTILE = ["..", "' OR 1=1 --", "a\nb", "שלום", "🧠" * 200, "a:b|c", "%", "x" * 1000, " ", "line", "0"]


def test_hostile_threads_and_namespaces_stay_apart(mem: Any) -> None:
    saver = RecollectSaver(mem)
    for thread in HOSTILE:
        for namespace in ("", *HOSTILE):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"where": [thread, namespace] * 20}
            where: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            saver.put(where, checkpoint, {}, {"where": 1})
            saver.put_writes(saver.get_tuple(where).config, [("w", thread + namespace)], "task")
    for thread in HOSTILE:
        for namespace in ("", *HOSTILE):
            where = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            (found,) = RecollectSaver(mem).list(where)
            assert found.checkpoint["channel_values"] == {"where": [thread, namespace] * 20}
            assert found.pending_writes == [("task", "w", thread + namespace)]


@pytest.mark.parametrize("thread", ["", "nul\x00", "\ud800", "x" * 1001])
def test_a_thread_that_no_store_can_name_is_refused(mem: Any, thread: str) -> None:
    where: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    with pytest.raises(InvalidInput):
        RecollectSaver(mem).put(where, empty_checkpoint(), {}, {})


def test_tenants_never_meet(mem: Any) -> None:
    chatting(RecollectSaver(mem), 2).invoke(BEGIN, config())
    other = mem.within("other")
    stranger = RecollectSaver(other)
    assert stranger.get_tuple(config()) is None
    assert list(stranger.list(None)) == []
    stranger.delete_thread("t")
    stranger.prune(["t"])
    stranger.copy_thread("t", "stolen")
    assert other.checkpoint.threads().threads == []
    assert len(list(RecollectSaver(mem).list(config()))) == 4


def test_two_writers_on_one_thread_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    with recollect.open(path, embedder="hash") as one, recollect.open(path, embedder="hash") as two:
        savers = [RecollectSaver(one, keep=8), RecollectSaver(two)]

        def write(number: int) -> None:
            saver, messages = savers[number % 2], list[HumanMessage]()
            where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            for step in range(25):
                messages = [*messages, HumanMessage(f"{number} {step} " * 20, id=f"{number}-{step}")]
                checkpoint = empty_checkpoint()
                checkpoint["channel_values"] = {"messages": messages, "by": number}
                where = saver.put(where, checkpoint, {"step": step}, {"messages": step, "by": 1})
                saver.put_writes(where, [("by", number)], f"task-{number}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        savers[1].prune(["t"])
        kept = list(savers[0].list(None))
        assert len(kept) == 1
        for found in kept:
            values = found.checkpoint["channel_values"]
            assert [m.id for m in values["messages"]] == [f"{values['by']}-{n}" for n in range(len(values["messages"]))]
        assert one.verify().sound


def test_a_thread_deleted_under_a_saver_is_saved_whole_again(mem: Any) -> None:
    saver = RecollectSaver(mem)
    graph = chatting(saver, 3)
    graph.invoke(BEGIN, config())
    state = saver.get_tuple(config())
    assert state is not None
    RecollectSaver(mem).delete_thread("t")
    checkpoint = {**state.checkpoint, "id": empty_checkpoint()["id"]}
    saver.put(state.config, checkpoint, state.metadata, {})  # type: ignore[arg-type]
    again = RecollectSaver(mem).get_tuple(config())
    assert again is not None
    assert again.checkpoint["channel_values"] == state.checkpoint["channel_values"]


def test_items_of_a_checkpoint_that_is_gone_or_another_cannot_be_shared(mem: Any) -> None:
    mem.checkpoint.put("t", "1", items={"s": [b"x"] * 3})
    with pytest.raises(NotFound):
        mem.checkpoint.put("t", "2", base="0", spans={"s": [(0, 1)]})
    with pytest.raises(InvalidInput, match="does not contain"):
        mem.checkpoint.put("t", "2", base="1", spans={"s": [(0, 4)]})


def test_what_is_shared_while_another_prunes_is_kept(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mem.checkpoint.put("t", "1", items={"s": [b"x"] * 3})
    mem.checkpoint.put("t", "2")
    transact, late = mem._core.store.transact, [{"base": "1", "spans": {"s": [(0, 3)]}}]

    def interrupted(scope: Any, steps: Any) -> Any:
        if late:
            mem.checkpoint.put("t", "3", **late.pop())
        return transact(scope, steps)

    monkeypatch.setattr(mem._core.store, "transact", interrupted)
    mem.checkpoint.prune(keep=1)
    (page,) = mem.checkpoint.list("t").lines
    assert page.items == {"s": [b"x"] * 3}


def test_a_thread_is_not_copied_over_another(mem: Any) -> None:
    for thread in ("a", "b"):
        mem.checkpoint.put(thread, "1")
    with pytest.raises(Conflict, match="already has checkpoints"):
        mem.checkpoint.copy("a", "b")


def test_what_was_exported_resumes_elsewhere(mem: Any, tmp_path: Path) -> None:
    chatting(RecollectSaver(mem), 4).invoke(BEGIN, config())
    mem.export(str(tmp_path / "all.jsonl"))
    with recollect.open(tmp_path / "elsewhere.db", embedder="hash") as other:
        other.import_(str(tmp_path / "all.jsonl"))
        state = chatting(RecollectSaver(other), 6).invoke({"notes": ""}, config())
        assert len(state["messages"]) == 12
        assert other.verify().sound


def test_requests_and_replies_pass_through_json(mem: Any) -> None:
    plain = PutCheckpointRequest(thread="t", id="1", body=b"\x00\xff", items={"s": [b"\xfe" * 200]})
    mem.call("checkpoint.put", **PutCheckpointRequest.model_validate_json(plain.model_dump_json()).model_dump())
    mem.call("checkpoint.put", thread="t", id="2", body="AP8=")
    reply = CheckpointPage.model_validate_json(mem.checkpoint.list("t").model_dump_json())
    assert [one.body for one in reply.checkpoints] == [b"\x00\xff", b"\x00\xff"]
    assert reply.lines[0].items == {"s": [b"\xfe" * 200]}
    with pytest.raises(InvalidInput, match="base64"):
        mem.call("checkpoint.put", thread="t", id="2", body="no base64")


# -- kill -9 ---------------------------------------------------------------------------------------------------------

WORKER = textwrap.dedent(
    """
    import recollect
    from chat_graph import BEGIN, chatting, config
    from recollect.integrations.langgraph import RecollectSaver
    with recollect.open({path!r}, embedder="hash") as mem:
        graph = chatting(RecollectSaver(mem, keep=5), 10_000)
        given = BEGIN if not graph.get_state(config()).values else None
        for step in graph.stream(given, config(), stream_mode="values", durability="sync"):
            print(step["step"], flush=True)
    """
)


@pytest.mark.parametrize("seed", range(10 if SOAK else 1))
def test_a_graph_killed_at_any_moment_resumes_where_it_was(tmp_path: Path, seed: int) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(path=str(tmp_path / "graph.db")))
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    acknowledged = 0
    for life in range(2):
        target = acknowledged + random.Random(f"{SEED} {seed} {life}").randint(3, 30)
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=surroundings) as process:
            assert process.stdout is not None
            for line in process.stdout:
                assert int(line) >= acknowledged, "it went back"
                acknowledged = int(line)
                if acknowledged >= target:
                    break
            process.send_signal(signal.SIGKILL)
    with recollect.open(tmp_path / "graph.db", embedder="hash") as mem:
        state = chatting(RecollectSaver(mem), 1).get_state(config())
        # The step that was announced last may have been on its way to disk.
        assert state.values["step"] >= acknowledged - 1
        assert [one.id for one in state.values["messages"]] == [
            f"{who}{number}" for number in range(1, state.values["step"] + 1) for who in "qa"
        ]
        assert mem.verify().sound


def test_versions_of_other_savers_are_continued() -> None:
    with recollect.open("memory://", embedder="hash") as mem:
        saver = RecollectSaver(mem)
        assert saver.get_next_version(None) == 1
        assert saver.get_next_version(4) == 5
        theirs = "00000000000000000000000000000002.0.4"
        assert saver.get_next_version(theirs) > theirs


COMMANDS = ("checkpoint threads", "checkpoint get [bold]t[/]", "checkpoint list", "item search", "item namespaces")


def test_people_see_threads_and_items_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t.db")
    with recollect.open(path, embedder="hash") as mem:
        chatting(RecollectSaver(mem), 2).invoke(BEGIN, config("[bold]t[/]"))
        mem.item.put(["notes", "[red]"], "k", value={"text": "é"})
    for command in (
        "checkpoint threads",
        "checkpoint get [bold]t[/]",
        "checkpoint list",
        "item search",
        "item namespaces",
    ):
        assert main.run([*command.split(), "--store", path]) == 0
        output = capsys.readouterr().out
        assert ("[bold]t[/]" in output) != command.startswith("item")
        assert ("notes / [red]" in output) == command.startswith("item")
