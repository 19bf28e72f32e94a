"""Checkpoints of a LangGraph graph: per second and bytes per step, beside LangGraph's own SqliteSaver, in one run.

One graph, one node, ten channels; `messages` grows by two with every step. Both savers are on a real file, in WAL mode
with `synchronous=FULL`: every checkpoint and every task's writes are on disk before the graph goes on
(`durability="sync"`). Steps alternate in blocks, so that a busy machine disturbs both alike; before the first, each
saver has done a few on another thread, since what a program does once as it starts is no cost of a step.
"""

from __future__ import annotations

import argparse
import json
import operator
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import recollect
from recollect.integrations.langgraph import RecollectSaver
from shared import console, machine

BLOCK = 25
WARM_UP = 5
TALK = "the pipeline was postponed because the old schema was too slow, and nobody had asked for the export "


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    notes: Annotated[list[str], operator.add]
    goal: str
    plan: list[str]
    step: int
    user: dict[str, Any]
    scratch: str
    budget: float
    done: bool
    last: str


def agent(state: State) -> dict[str, Any]:
    step = state["step"] + 1
    asked = HumanMessage(f"question {step}: {TALK}", id=f"q{step}")
    answered = AIMessage(f"answer {step}: {TALK * 2}", id=f"a{step}")
    return {"messages": [asked, answered], "step": step, "last": f"a{step}", "budget": 100.0 - step / 10}


def begin() -> dict[str, Any]:
    return {
        "messages": [], "notes": ["began"], "goal": "write the report " * 10, "plan": ["read", "think", "write"],
        "step": 0, "user": {"name": "Alice", "prefers": "short answers"}, "scratch": TALK * 10, "budget": 100.0,
        "done": False, "last": "",
    }  # fmt: skip


class Contender:
    """A saver with its file and the graph that runs on it; `advance` does some steps and counts their seconds."""

    def __init__(self, saver: Any, path: Path, until: int) -> None:
        self.path = path
        self.seconds = 0.0
        self.blocks: list[float] = []
        builder = StateGraph(State)
        builder.add_node("agent", agent)
        builder.add_edge(START, "agent")
        builder.add_conditional_edges(
            "agent", lambda state: "agent" if state["step"] % BLOCK and state["step"] < until else END
        )
        graph: Any = builder.compile(checkpointer=saver)
        self._graph = graph
        self._config = _thread("bench")
        self._steps = 0
        graph.invoke({**begin(), "step": until - WARM_UP}, _thread("warm-up"), durability="sync")
        saver.delete_thread("warm-up")

    def advance(self) -> None:
        given = begin() if not self._steps else {"done": False}
        begun = time.perf_counter()
        state = self._graph.invoke(given, self._config, durability="sync")
        spent = time.perf_counter() - begun
        self.blocks.append(1000 * spent / (state["step"] - self._steps))
        self.seconds += spent
        self._steps = state["step"]

    @property
    def messages(self) -> int:
        return len(self._graph.get_state(self._config).values["messages"])


def _thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}, "recursion_limit": 10_000}


def size(path: Path) -> int:
    """With its log emptied into it."""
    return sum(one.stat().st_size for one in path.parent.glob(path.name + "*") if one.is_file())


def measured(name: str, contender: Contender, steps: int, empty: int) -> dict[str, Any]:
    assert contender.messages == 2 * steps, f"{name} lost messages"
    return {
        "steps_per_second": round(steps / contender.seconds, 1),
        "first_block_ms": round(contender.blocks[0], 3),
        "median_block_ms": round(statistics.median(contender.blocks), 3),
        "last_block_ms": round(contender.blocks[-1], 3),
        "bytes_per_step": round((size(contender.path) - empty) / steps),
    }


def open_recollect(
    folder: Path, stack: ExitStack, keep: int | None = None
) -> tuple[Any, Path, Callable[[], object], int]:
    path = folder / f"recollect-{keep}.db"
    mem = stack.enter_context(recollect.open(path, embedder="none"))
    flush = mem._core.store.erase_traces
    flush()
    return RecollectSaver(mem, keep=keep), path, flush, size(path)


def open_langgraph(folder: Path, stack: ExitStack) -> tuple[Any, Path, Callable[[], object], int]:
    path = folder / "langgraph.db"
    connection = stack.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous = full")

    def flush() -> None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return saver, path, flush, size(path)


def run(steps: int) -> dict[str, Any]:
    report: dict[str, Any] = {"steps": steps, "machine": machine(), "durability": "WAL, synchronous=FULL, sync"}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        opened = {
            "recollect": open_recollect(Path(scratch), stack),
            "recollect, keep=10": open_recollect(Path(scratch), stack, keep=10),
            "langgraph SqliteSaver": open_langgraph(Path(scratch), stack),
        }
        contenders = {name: Contender(saver, path, steps) for name, (saver, path, _, _) in opened.items()}
        for _ in range(-(-steps // BLOCK)):
            for contender in contenders.values():
                contender.advance()
        for _, _, flush, _ in opened.values():
            flush()
        report["savers"] = {
            name: measured(name, contender, steps, opened[name][3]) for name, contender in contenders.items()
        }
    return report


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=500)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    report = run(given.steps)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "checkpoints.json").write_text(json.dumps(report, indent=1) + "\n")
    for name, figures in report["savers"].items():
        console.print(f"{name:24} " + "  ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
