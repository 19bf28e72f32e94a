"""A small graph for tests: each step asks and answers, so that `messages` grows by two."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    step: int
    notes: str


def chat(state: State) -> dict[str, Any]:
    step = state["step"] + 1
    said = [HumanMessage(f"question {step} " * 10, id=f"q{step}"), AIMessage(f"answer {step} " * 10, id=f"a{step}")]
    return {"messages": said, "step": step}


def chatting(saver: Any, until: int) -> Any:
    builder = StateGraph(State)
    builder.add_node("chat", chat)
    builder.add_edge(START, "chat")
    builder.add_conditional_edges("chat", lambda state: "chat" if state["step"] < until else END)
    return builder.compile(checkpointer=saver)


def config(thread: str = "t") -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}


BEGIN: State = {"messages": [], "step": 0, "notes": "as agreed " * 100}
