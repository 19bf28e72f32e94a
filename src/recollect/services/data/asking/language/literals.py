"""The values that a question compares with: numbers, dates, quoted text, values of the data; and how they compare.

Each literal keeps the fields it may belong to. Which of them, or whether it is a limit or a count, is decided later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from recollect.services.data.asking.language.dates import time_spans
from recollect.services.data.asking.language.values import ValueHit
from recollect.services.data.asking.language.words import NUMBERS, STOPWORDS, Token
from recollect.services.data.asking.plans.plan import Operator
from recollect.services.data.asking.plans.schema import Scalar


@dataclass(frozen=True)
class Literal:
    """A place of the question with a value. `hits` are values of the data that it may mean."""

    kind: str  # number, text, date, span (of time), flag (a field of yes and no)
    value: Scalar
    start: int
    end: int
    operator: Operator = "="
    hits: tuple[ValueHit, ...] = ()
    is_word: bool = False  # a number written as a word: often a count or an article
    is_quoted: bool = False
    pattern: str = ""  # for like
    upper: Scalar = None
    cues: frozenset[str] = field(default=frozenset())


_GREATER = frozenset(
    """more greater over above larger higher bigger longer older after exceed exceeds exceeding later beyond heavier
    taller faster""".split()
)
_LESS = frozenset("less fewer below under smaller lower shorter younger before earlier cheaper lighter slower".split())
_LIKE = frozenset(
    """contain contains containing include includes including substring word letter letters phrase start starts starting
    begin begins beginning end ends ending prefix suffix like string""".split()
)
_NOT = frozenset(
    """not n't no except excluding without other neither nor never outside isn't don't doesn't aren't wasn't
    didn't""".split()
)
_ORDINAL = re.compile(r"(st|nd|rd|th)$")


def number_of(token: Token) -> int | float | None:
    if token.kind == "number":
        text = _ORDINAL.sub("", token.text.strip("$€£%"))
        if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", text):
            text = text.replace(",", "")
        elif re.fullmatch(r"\d{1,3}(\.\d{3})+(,\d+)?", text) and "," in text:
            text = text.replace(".", "").replace(",", ".")
        elif "," in text:
            text = text.replace(",", ".") if text.count(",") == 1 else text.replace(",", "")
        if not re.fullmatch(r"\d+(\.\d+)?", text):
            return None
        return float(text) if "." in text else int(text)
    if token.kind == "word":
        return NUMBERS.get(token.word)
    return None


def literals(
    tokens: Sequence[Token], hits: Sequence[ValueHit], today: date | None = None, bare_years: bool = False
) -> list[Literal]:
    """All literals of a question, in its order; those that overlap a surer one are left out."""
    found = [*_valued(tokens, hits), *_quoted(tokens, hits), *_dates(tokens), *_numbers(tokens, hits)]
    if today is not None:
        found.extend(_spans(tokens, today, bare_years))
    found.sort(
        key=lambda each: (
            not each.is_quoted,
            -(each.end - each.start),
            -max((h.score for h in each.hits), default=0),
            each.kind != "span",
        )
    )
    kept: list[Literal] = []
    for each in found:
        if all(each.end <= other.start or other.end <= each.start for other in kept):
            kept.append(each)
    kept.sort(key=lambda each: each.start)
    return _between(tokens, [_compared(tokens, each) for each in kept])[:6]


def _valued(tokens: Sequence[Token], hits: Sequence[ValueHit]) -> Iterable[Literal]:
    spans: dict[tuple[int, int], list[ValueHit]] = {}
    for hit in hits:
        if not hit.is_quoted:
            spans.setdefault((hit.start, hit.end), []).append(hit)
    for (start, end), group in spans.items():
        text = " ".join(token.text for token in tokens[start:end])
        best = max(hit.score for hit in group)
        if best < 0.55 or (end - start == 1 and tokens[start].word in STOPWORDS and best < 0.9):
            continue
        kind = "number" if end - start == 1 and tokens[start].kind == "number" else "text"
        if all(hit.is_flag for hit in group):
            kind = "flag"
        value: Scalar = text
        if kind == "number":
            value = number_of(tokens[start])
        yield Literal(kind, value, start, end, hits=_best(group))


def _best(hits: Sequence[ValueHit]) -> tuple[ValueHit, ...]:
    """Of each field its best value."""
    best: dict[int, ValueHit] = {}
    for hit in sorted(hits, key=lambda each: -each.score):
        best.setdefault(hit.field, hit)
    return tuple(best.values())


def _quoted(tokens: Sequence[Token], hits: Sequence[ValueHit]) -> Iterable[Literal]:
    for at, token in enumerate(tokens):
        if token.kind == "quote":
            own = [hit for hit in hits if hit.start == at and hit.is_quoted]
            yield Literal("text", token.text, at, at + 1, hits=_best(own), is_quoted=True)


def _spans(tokens: Sequence[Token], today: date, bare_years: bool) -> Iterable[Literal]:
    """Months and relative times; one side may be open."""
    for span in time_spans(tokens, today, bare_years):
        if all(token.kind == "date" for token in tokens[span.start : span.end]):
            continue
        first, after = (each.isoformat() if each else None for each in (span.first, span.after))
        if first and after:
            yield Literal("span", first, span.start, span.end, "within", upper=after)
        elif first or after:
            yield Literal("span", first or after, span.start, span.end, ">=" if first else "<")


def _dates(tokens: Sequence[Token]) -> Iterable[Literal]:
    for at, token in enumerate(tokens):
        if token.kind == "date":
            yield Literal("date", token.text, at, at + 1)


def _numbers(tokens: Sequence[Token], hits: Sequence[ValueHit]) -> Iterable[Literal]:
    for at, token in enumerate(tokens):
        value = number_of(token)
        if value is None:
            continue
        if (
            token.kind == "word"
            and token.word == "one"
            and at + 1 < len(tokens)
            and tokens[at + 1].word in ("of", "with")
        ):
            continue
        yield Literal("number", value, at, at + 1, is_word=token.kind == "word")


def _compared(tokens: Sequence[Token], literal: Literal) -> Literal:
    """With the operator that the words around it say."""
    if literal.kind in ("span", "flag"):
        return literal
    left = [token.word for token in tokens[max(0, literal.start - 6) : literal.start]]
    right = [token.word for token in tokens[literal.end : literal.end + 3]]
    for mark in (",", ";", ".", "?"):
        if mark in left:
            left = left[len(left) - left[::-1].index(mark) :]
    near = left[-4:]
    cues = frozenset(near) & (
        _GREATER | _LESS | _LIKE | _NOT | {"least", "most", "top", "first", "last", "between", "than"}
    )
    operator: Operator = "="
    pattern = ""
    joined = " ".join(near)
    after = " ".join(right[:2])
    if (_GREATER | _LESS) & set(near) or right[2:] in (["than"], ["the"]) or any(word.isdigit() for word in right[2:]):
        after = ""  # "over 5 or under 3" compares twice
    if literal.kind == "text":
        if _LIKE & set(left[-5:]) or (_LIKE & set(right[:2]) and literal.is_quoted):
            operator, pattern = "like", _pattern(str(literal.value), left)
        elif _NOT & set(left[-5:]) or joined.endswith(("other than", "different from")):
            operator = "!="
    elif re.search(r"(no|not) (more|greater|higher|later|larger|older) than|at most|up to|maximum of|no later", joined):
        operator = "<="
    elif re.search(
        r"(no|not) (less|fewer|lower|smaller|younger|earlier) than|at least|minimum of|least", joined
    ) or after.startswith(
        ("or more", "or above", "or higher", "or greater", "or older", "or later", "and above", "or over")
    ):
        operator = ">="
    elif after.startswith(
        ("or less", "or fewer", "or below", "or lower", "or younger", "or earlier", "and below", "or under")
    ):
        operator = "<="
    elif re.search(r"(than|as) or equal", joined):
        operator = ">=" if _GREATER & set(left[-7:]) else "<="
    elif _GREATER & set(near):
        operator = ">"
    elif _LESS & set(near):
        operator = "<"
    elif "since" in near or ("from" in near[-1:] and right[:1] == ["on"]):
        operator = ">="
    elif "until" in near:
        operator = "<="
    elif _NOT & set(near):
        operator = "!="
    if operator == "!=" and "not" not in joined and "no" in near[-3:-1]:
        operator = "="
    return _replaced(literal, operator, pattern, cues)


def _pattern(text: str, left: Sequence[str]) -> str:
    words = set(left[-5:])
    if words & {"start", "starts", "starting", "begin", "begins", "beginning", "prefix"}:
        return f"{text}%"
    if words & {"end", "ends", "ending", "suffix"}:
        return f"%{text}"
    return f"%{text}%"


def _replaced(
    literal: Literal, operator: Operator, pattern: str, cues: frozenset[str], upper: Scalar = None
) -> Literal:
    return Literal(
        literal.kind, literal.value, literal.start, literal.end, operator, literal.hits, literal.is_word,
        literal.is_quoted, pattern, upper, cues,
    )  # fmt: skip


def _between(tokens: Sequence[Token], found: list[Literal]) -> list[Literal]:
    """Two numbers or dates after "between" or "from … to" as one literal with two ends."""
    result: list[Literal] = []
    at = 0
    while at < len(found):
        one = found[at]
        other = found[at + 1] if at + 1 < len(found) else None
        if other and one.kind == other.kind and one.kind != "text" and other.start - one.end <= 2:
            before = {token.word for token in tokens[max(0, one.start - 4) : one.start]}
            link = {token.word for token in tokens[one.end : other.start]}
            if ("between" in before and "and" in link) or ("from" in before and link & {"to", "until", "through"}):
                result.append(_replaced(one, "between", "", one.cues, other.value))
                at += 2
                continue
        result.append(one)
        at += 1
    return result
