"""The kinds of memory and the typed content of each.

A kind is a class: its fields are the content a memory of that kind must have, `as_text` says how it reads as a
sentence, which is what is searched. `define_kind` adds a user's own; nothing else needs to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from recollect.domain.json_schema import misfits
from recollect.domain.record import Id, Json, Record, Reference, Shape, Text, storable, storable_json
from recollect.errors import InvalidInput, UnknownKind

TEXT_LIMIT = 1_000_000


class Content(BaseModel):
    """What a memory says. Free kinds may carry any further JSON beside their text."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    kind: ClassVar[str]
    text: Text = ""

    def as_text(self) -> str:
        return self.text


class Fact(Content):
    """Something held to be true."""

    kind = "fact"


class Observation(Content):
    """Something an agent perceived."""

    kind = "observation"


class Reflection(Content):
    """A conclusion an agent drew from what it saw."""

    kind = "reflection"


class Plan(Content):
    """What an agent means to do."""

    kind = "plan"
    steps: list[Text] = Field(default_factory=list)

    def as_text(self) -> str:
        return "\n".join([self.text, *self.steps]).strip()


class Outcome(Content):
    """What came of an action."""

    kind = "result"
    success: bool | None = None


class Conversation(Content):
    """One turn of a conversation."""

    kind = "conversation"
    role: Text | None = None


class Context(Content):
    """The surroundings of a conversation or task."""

    kind = "context"


class UserPreference(Content):
    """What a user likes, wants or always does."""

    kind = "user_preference"
    key: Text | None = None
    value: object = None

    def as_text(self) -> str:
        if self.text:
            return self.text
        return f"{self.key}: {self.value}" if self.key else ""


class StateNote(Content):
    """The state of an agent, kept as a memory."""

    kind = "agent_state"
    state: Json = Field(default_factory=dict)

    def as_text(self) -> str:
        return self.text or _lines(self.state)


class Entity(Content):
    """What is known about a person, place or thing."""

    kind = "entity"
    name: Text | None = None
    type: Text | None = None
    attributes: Json = Field(default_factory=dict)
    observations: list[Text] = Field(default_factory=list)

    def as_text(self) -> str:
        head = f"{self.name} ({self.type})" if self.type else (self.name or "")
        return "\n".join(part for part in (head, self.text, _lines(self.attributes), *self.observations) if part)


class Interaction(Content):
    """One exchange between a user and an assistant."""

    kind = "interaction"
    request: Text | None = None
    response: Text | None = None

    def as_text(self) -> str:
        return "\n".join(part for part in (self.text, self.request, self.response) if part)


class Episode(Content):
    """One task an agent tried, how it went and why."""

    kind = "episode"
    task_description: Text
    initial_state_snapshot: Text = ""
    action_plan: Text = ""
    action_output: Text = ""
    success: bool
    critique: Text = ""

    def as_text(self) -> str:
        verdict = "succeeded" if self.success else "failed"
        parts = (f"{self.task_description} ({verdict})", self.action_plan, self.critique, self.text)
        return "\n".join(part for part in parts if part)


class Pattern(Content):
    """Know-how generalised from episodes. A rate and counts given here are stated, not observed: `pattern show` says
    so, and counts what was observed."""

    kind = "pattern"
    problem_space: Text
    solution_template: Text
    usage_count: int = Field(default=0, ge=0)
    success_count: int = Field(default=0, ge=0)
    success_rate: float = Field(default=0.5, ge=0.0, le=1.0)
    generalized_from: list[Id] = Field(default_factory=list)

    def as_text(self) -> str:
        return "\n".join(part for part in (self.problem_space, self.solution_template, self.text) if part)


class Summary(Content):
    """Something longer compressed; `covers` names the memories, `messages` the messages it compresses."""

    kind = "summary"
    covers: list[Id] = Field(default_factory=list)
    messages: list[Id] = Field(default_factory=list)


class QueryPattern(Content):
    """A question that a query answered well, while the tables were as the fingerprint says."""

    kind = "query_pattern"
    question: Text
    sql: Text
    tables: list[Text] = Field(default_factory=list)
    fields: list[Text] = Field(default_factory=list)
    schema_fingerprint: Text = ""
    usage_count: int = Field(default=0, ge=0)
    success_count: int = Field(default=0, ge=0)
    success_rate: float = Field(default=0.5, ge=0.0, le=1.0)

    def as_text(self) -> str:
        return "\n".join(part for part in (self.question, self.sql, self.text) if part)


def _lines(values: Mapping[str, object]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in values.items())


KINDS: dict[str, type[Content]] = {
    content.kind: content
    for content in (
        Fact,
        Observation,
        Reflection,
        Plan,
        Outcome,
        Conversation,
        Context,
        UserPreference,
        StateNote,
        Entity,
        Interaction,
        Episode,
        Pattern,
        Summary,
        QueryPattern,
    )
}


BUILT_IN = frozenset(KINDS)


class MemoryKind(Record):
    """A kind that is declared in the store, for everybody who works with it; its id is its name."""

    shape: ClassVar[Shape] = Shape("kind", references={"organization_id": Reference("organization")})

    description: Text = ""
    json_schema: Json = Field(default_factory=dict)
    """What the content must be like; anything, where it is empty."""


def kind_name(name: str) -> str:
    """The name, if it can be one."""
    if not name.isidentifier() or not name.islower() or len(name) > 50:
        raise InvalidInput(f"'{name[:50]}' cannot name a kind", remedy="use lower-case letters, digits and _")
    return name


def define_kind(name: str, content: type[Content] | None = None) -> type[Content]:
    """Add a kind of one's own, with free content or with the given content class."""
    kind_name(name)
    if content is None and name in KINDS:
        return KINDS[name]
    made: type[Content] = content or type(name, (Content,), {"kind": name, "__doc__": f"A {name}, defined by a user."})
    made.kind = name
    KINDS[name] = made
    return made


class Described(Content):
    """Content of a kind that has no class: its text, or what it holds, line by line."""

    def as_text(self) -> str:
        return self.text or _lines(self.model_extra or {})


def read_content(kind: str, content: str | Json, declared: MemoryKind | None = None) -> tuple[Json, str]:
    """Validate content for its kind: the JSON to store and the text to search.

    `declared` is what the store says of a kind that no class is for.
    """
    shape = KINDS.get(kind) or (Described if declared is not None else None)
    if shape is None:
        raise UnknownKind(
            f"there is no kind '{kind[:50]}'",
            remedy=f"use one of {', '.join(sorted(KINDS))}, or declare it: kind.add('{kind[:50]}'), or in this program "
            f"recollect.define_kind('{kind[:50]}')",
            kind=kind[:50],
        )
    if isinstance(content, str) and content and shape in _READ_AS_GIVEN:
        return _plain_content(content)
    given = {"text": content} if isinstance(content, str) else content
    if not isinstance(given, dict):
        raise InvalidInput(
            f"content must be text or a JSON object, not {type(content).__name__}",
            remedy='give a string, or a dictionary such as {"text": "…"}',
        )
    try:
        made = shape.model_validate(storable_json(given))
    except ValidationError as error:
        raise InvalidInput(
            f"content does not fit the kind '{kind}': {describe(error)}", remedy=f"see the fields of '{kind}'"
        ) from None
    except ValueError as error:
        raise InvalidInput(f"content {error}", remedy="give plain JSON") from None
    wrong = next(misfits(given, declared.json_schema), None) if declared is not None and shape is Described else None
    if wrong is not None:
        raise InvalidInput(f"content does not fit the kind '{kind}': {wrong}", remedy="see kind.list for its schema")
    return made.model_dump(mode="json", exclude_defaults=True), made.as_text().strip()


# Kinds that keep a plain text as it is: most of what is remembered, so no model is built for each.
_READ_AS_GIVEN = frozenset({Fact, Observation, Reflection, Outcome, Conversation, Context, Summary})


def _plain_content(text: str) -> tuple[Json, str]:
    try:
        return {"text": storable(text)}, text.strip()
    except ValueError as error:
        raise InvalidInput(f"content {error}", remedy="give plain JSON") from None


def describe(error: ValidationError) -> str:
    """The first few things wrong, in words, without repeating the values."""
    return "; ".join(f"{_place(item) or 'it'}: {_in_words(item)}" for item in error.errors()[:3])


def _place(item: ErrorDetails) -> str:
    """Where it is, without the types that pydantic names when a field takes several."""
    return ".".join(part for part in map(str, item["loc"]) if "[" not in part)


def _in_words(item: ErrorDetails) -> str:
    if item["type"].startswith("datetime"):
        return "is not a time; write 2024-05-08 or 2024-05-08T12:00:00+07:00"
    if item["type"] in ("too_long", "too_short"):
        return _of_length(item)
    return str(item["msg"]).removeprefix("Value error, ")


def _of_length(item: ErrorDetails) -> str:
    """How long it may be: pydantic counts "items after validation", of a text as of a list."""
    is_long, told, given = item["type"] == "too_long", item["ctx"], item["input"]
    bound = told["max_length" if is_long else "min_length"]
    unit = "character" if isinstance(given, str) else "byte" if isinstance(given, bytes) else "entry"
    units = unit if bound == 1 else {"entry": "entries"}.get(unit, f"{unit}s")
    actual = told.get("actual_length")
    said = f", not {actual:,}" if isinstance(actual, int) else ""
    return f"should have at {'most' if is_long else 'least'} {bound:,} {units}{said}"
