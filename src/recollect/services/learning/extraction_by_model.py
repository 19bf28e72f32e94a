"""What a language model proposes to remember of a conversation, checked against what was said.

The model answers in a fixed shape (json_schema). A proposal is used only if it quotes a message that a person wrote,
word for word, and names no number that is not in that message or its date; the others are counted in a note. Where
there is no model, it fails or nothing it says can be used, the rules answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import BaseModel, Field

from recollect.domain.conversations import Message
from recollect.domain.record import JsonObject, Text, clipped_within
from recollect.domain.text.personal_statements import Category, Statement, read_statement
from recollect.ports.models import Prompt
from recollect.services.learning.generation import generated
from recollect.services.tenant import Core

_DIGITS = re.compile(r"[0-9]{1,18}")
SHOWN_OF_A_MESSAGE, SHOWN_AT_ONCE = 4_000, 12_000  # characters
MOST_FACTS = 40  # of one answer
INSTRUCTIONS = """\
Find what is worth remembering for years in this conversation: preferences of people, facts about people, decisions,
plans with dates, lasting instructions to the assistant. Only what a person (not the assistant) states plainly. Leave
out questions, small talk, guesses, wishes, jokes, general knowledge and what matters only now. Word each as one short
sentence that is clear without the conversation ("The user ..." or by name; dates in full). `message` is the number of
the message it is from, `quote` the words of that message that say it, exactly as written. An empty list is a good
answer."""


class ExtractedFact(BaseModel):
    """One thing worth remembering."""

    text: Text = Field(max_length=1_000)
    category: Category
    message: int
    quote: Text = Field(max_length=2_000)


class ExtractedFacts(BaseModel):
    """The answer expected of a language model."""

    facts: list[ExtractedFact] = Field(max_length=MOST_FACTS)


class Found(NamedTuple):
    """A statement, the message that makes it, and the words there that say it."""

    statement: Statement
    message: Message
    quote: str


class Reading(NamedTuple):
    """What was found in some messages, by whom, and what to say about it."""

    found: list[Found]
    metadata: JsonObject
    notes: tuple[str, ...] = ()


def read_by_model(core: Core, messages: Sequence[Message], by_rules: Sequence[Found]) -> Iterator[Reading]:
    """What a model finds in the messages, piece by piece; what the rules found in a piece where it is of no use."""
    for piece in _pieces(messages):
        ids = {one.id for one in piece}
        offline = [one for one in by_rules if one.message.id in ids]
        answer = generated(core, _prompt(piece), _as_answer(offline, piece), partial(_objection, piece))
        if "usage" not in answer.metadata or answer.notes:
            yield Reading(offline, answer.metadata, answer.notes)
            continue
        used = [found for fact in answer.value.facts if (found := _checked(fact, piece)) is not None]
        left_out = len(answer.value.facts) - len(used)
        note = f"{left_out} proposals of the language model were left out: they do not quote what a person said"
        yield Reading(used, answer.metadata, (note,) if left_out else ())


def _pieces(messages: Sequence[Message]) -> Iterator[list[Message]]:
    piece: list[Message] = []
    size = 0
    for one in messages:
        length = min(len(one.text or ""), SHOWN_OF_A_MESSAGE)
        if piece and size + length > SHOWN_AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(one)
        size += length
    if piece:
        yield piece


def _prompt(piece: Sequence[Message]) -> Prompt:
    material = "\n".join(
        f"[{number}] {one.name or one.role} ({one.role}), {one.created_at:%Y-%m-%d}: "
        f"{clipped_within(one.text or '', SHOWN_OF_A_MESSAGE)}"
        for number, one in enumerate(piece, 1)
    )
    return Prompt(INSTRUCTIONS, material, most_tokens=3_000)


def _as_answer(found: Sequence[Found], piece: Sequence[Message]) -> ExtractedFacts:
    numbers = {one.id: number for number, one in enumerate(piece, 1)}
    facts = [
        ExtractedFact(
            text=one.statement.text[:1_000], category=one.statement.category, message=numbers[one.message.id],
            quote=one.quote[:2_000],
        )
        for one in found[:MOST_FACTS]
    ]  # fmt: skip
    return ExtractedFacts(facts=facts)


def _objection(piece: Sequence[Message], answer: ExtractedFacts) -> str | None:
    if answer.facts and all(_checked(fact, piece) is None for fact in answer.facts):
        return "none of what it proposes quotes what a person said"
    return None


def _checked(fact: ExtractedFact, piece: Sequence[Message]) -> Found | None:
    """The proposal, if it stands on what a person said."""
    text, quote = " ".join(fact.text.split()), _plain(fact.quote)
    if not text or len(quote) < 3 or not 1 <= fact.message <= len(piece):
        return None
    message = piece[fact.message - 1]
    if message.role != "user" or quote not in _plain(message.text or ""):
        return None
    known = _DIGITS.findall(f"{message.text} {message.created_at:%Y %m %d}")
    if {int(one) for one in _DIGITS.findall(text)} - {int(one) for one in known} and fact.category != "plan":
        return None  # a plan may name the day that "tomorrow" is
    read = read_statement(text)
    slot, value = (read.slot, read.value) if read is not None else (None, "")
    return Found(Statement(text, fact.category, slot, value), message, fact.quote.strip())


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").split()).casefold()
