"""Prompts that a person picks in their host: begin a task with what is known, and keep what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp import types

from recollect.catalogue import OPERATIONS
from recollect.errors import InvalidInput, RecollectError
from recollect.interfaces.mcp.resources import refused

if TYPE_CHECKING:
    from recollect.interfaces.mcp.access import RequestContext
    from recollect.interfaces.mcp.server import ToolHandlers

KEEP = (
    "Look back over this conversation and keep what will matter later. For each decision, preference, fact or lesson:"
    " `recall` it first; if it is known and still holds, leave it; if it turned out differently, `revise` it; otherwise"
    " `remember` it in one sentence that is clear without this conversation, with its evidence in `cites`"
    " (who said it, which file and lines, which page). Leave out small talk, secrets and what is plain from the code."
)
BEGIN = types.Prompt(
    name="begin_task",
    title="Begin a task with what is known",
    description="Starts a task with what the memory knows about it, with sources and status.",
    arguments=[
        types.PromptArgument(name="task", description="What is to be done", required=True),
        types.PromptArgument(name="tokens", description="The most tokens to read; 1000 by default", required=False),
    ],
)
END = types.Prompt(
    name="keep_what_was_learned",
    title="Keep what was learned",
    description="Looks through the conversation for what is worth remembering, and stores it.",
    arguments=[types.PromptArgument(name="about", description="Only what is about this topic", required=False)],
)


class PromptHandlers:
    def __init__(self, tools: ToolHandlers) -> None:
        self._tools = tools

    async def list_prompts(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[BEGIN, END])

    async def get(self, context: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = params.arguments or {}
        try:
            if params.name == BEGIN.name:
                return _said(BEGIN, await self._begun(context, given))
            if params.name == END.name:
                about = f"\n\nOnly what is about: {given['about']}" if given.get("about") else ""
                return _said(END, KEEP + about)
            raise InvalidInput(f"there is no prompt '{params.name[:80]}'", remedy=f"use {BEGIN.name} or {END.name}")
        except RecollectError as error:
            raise refused(error) from None

    async def _begun(self, context: RequestContext, given: dict[str, str]) -> str:
        if not given.get("task"):
            raise InvalidInput("the task is missing", remedy="describe what is to be done")
        fields = {"query": given["task"], "tokens": given.get("tokens") or 1000}
        operation = OPERATIONS["context"]
        known = await self._tools.ask(context, operation, self._tools.within_project(context, operation, fields))
        return f"{known.text}\n\nWith that in mind, do this:\n\n{given['task']}"


def _said(prompt: types.Prompt, text: str) -> types.GetPromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])
