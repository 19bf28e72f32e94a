"""The memory of a user for agents of smolagents: tools, what is known before a task, and what was said after it.

    memory = RecollectMemory(mem, user="ann", session="monday")
    agent = CodeAgent(tools=memory.tools, model=model, step_callbacks=memory.callbacks)
    agent.run(task, additional_args=memory.known(task))

The framework is synchronous, and so is the memory it needs: of `recollect.open` or `recollect.connect`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from recollect.errors import MissingExtra
from recollect.integrations.kept_items import searchable
from recollect.integrations.memory_tools import TOKENS, TOOLS, MemoryTools
from recollect.integrations.scoped_memory import ScopedMemory, synchronous

try:
    from smolagents import Tool
    from smolagents.memory import FinalAnswerStep, MemoryStep, TaskStep
except ImportError:
    raise MissingExtra("smolagents is not installed", remedy="pip install 'recollect[smolagents]'") from None

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect


class MemoryTool(Tool):
    """One of the tools with which a model keeps the memory itself."""

    skip_forward_signature_validation = True  # what it takes is told by `inputs`
    output_type = "string"

    def __init__(self, name: str, use: Callable[[str, str], str]) -> None:
        self.name = name
        self.description, self._argument, meaning = TOOLS[name]
        self.inputs = {self._argument: {"type": "string", "description": meaning}}
        self._use = use
        super().__init__()

    def forward(self, *given: str, **named: str) -> str:
        return self._use(self.name, given[0] if given else named[self._argument])


class RecollectMemory:
    """The memory of one user, in a project if one is named; tasks and answers go to `session`, by default a new one."""

    def __init__(
        self,
        mem: Recollect,
        *,
        user: str,
        project: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        tokens: int = TOKENS,
    ) -> None:
        self.session = session or str(uuid4())
        self._theirs = ScopedMemory(synchronous(mem), user, project)
        self._agent, self._tokens = agent, tokens
        self._asked = ""

    @property
    def tools(self) -> list[Tool]:
        """Tools to remember, recall and forget."""
        use = MemoryTools(self._theirs, self._agent, self._tokens).use
        return [MemoryTool(name, use) for name in TOOLS]

    @property
    def callbacks(self) -> dict[type[MemoryStep], Callable[..., None]]:
        """For `step_callbacks`: stores the task and the answer when a run has its answer."""
        return {FinalAnswerStep: self.store}

    def known(self, task: str) -> dict[str, str]:
        """For `additional_args`: what is known about a task, as data."""
        self._asked = task
        known = self._theirs.context(task, self._tokens)
        return {"memory": known} if known else {}

    def store(self, step: FinalAnswerStep, agent: Any) -> None:
        tasks = [one.task for one in agent.memory.steps if isinstance(one, TaskStep)]
        task = tasks[-1] if tasks else ""
        asked = self._asked if self._asked and task.startswith(self._asked) else task  # without what was known
        turns = [("user", asked, None), ("assistant", str(step.output), getattr(agent, "name", None))]
        said = [(role, searchable(text), name) for role, text, name in turns]
        messages = [
            {"role": role, "text": text, "name": name, "otid": str(uuid4())} for role, text, name in said if text
        ]
        self._theirs.say(self.session, messages)
