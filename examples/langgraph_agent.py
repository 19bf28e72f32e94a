"""A LangGraph agent that lives in Recollect: its state survives the process, its notes are found by meaning.

Runs offline: the "model" is a function. `pip install 'recollect[langgraph]'`, then run this file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore

import recollect
from recollect.integrations.langgraph import RecollectSaver, RecollectStore


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(state: State, *, store: BaseStore) -> dict[str, Any]:
    """A stand-in for a model: keeps what it is told, answers questions from what it keeps."""
    said = str(state["messages"][-1].content)
    if not said.endswith("?"):
        store.put(("notes", "alice"), str(len(state["messages"])), {"text": said})
        return {"messages": [AIMessage("Noted.")]}
    (note,) = store.search(("notes", "alice"), query=said, limit=1)
    return {"messages": [AIMessage(f"You told me: {note.value['text']}")]}


def talk(path: Path, said: str) -> None:
    """One turn, in a memory that is opened and closed again, as by a process of its own."""
    with recollect.open(path) as mem:
        builder = StateGraph(State)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        graph = builder.compile(checkpointer=RecollectSaver(mem, keep=20), store=RecollectStore(mem, fields=["text"]))
        state = graph.invoke({"messages": [HumanMessage(said)]}, {"configurable": {"thread_id": "alice"}})
        print(f"{said}\n    {state['messages'][-1].content}    ({len(state['messages'])} messages so far)")


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "agent.db"
    talk(file, "I write my tests with pytest.")
    talk(file, "My cat is called Mimi.")
    talk(file, "What is the name of my pet?")
