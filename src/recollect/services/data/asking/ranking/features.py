"""What the learned parts look at: features of a question, of a field in it, of a table in it, of a literal and a field.

Features are strings, hashed into a fixed number of places; a learned weight belongs to each place. The same code runs
in training and in the product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.language.linking import Encode, Links, Matrix, Mention
from recollect.services.data.asking.language.literals import Literal
from recollect.services.data.asking.language.words import STOPWORDS, name_words
from recollect.services.data.asking.plans.schema import Field, Schema

PLACES = 1 << 15
Indices = NDArray[np.int32]

_CUES = frozenset(
    """each every per by most least average mean total sum maximum minimum max min highest lowest largest smallest
    oldest youngest
    longest shortest more less than fewer greater at above below over under between not no never without except both
    either
    or and also but different distinct unique many number count how top first last order ordered sorted sort descending
    ascending decreasing increasing alphabetical alphabetically common popular whose who that which with have has where
    for only same any did does do than start contain letter""".split()
)
_BOUNDARIES = frozenset(
    "that who whose which with where for , and by in from when having sorted ordered order sort".split()
)
_NAMELIKE = frozenset("name title label".split())


def hashed(features: Iterable[str]) -> Indices:
    return np.unique(np.fromiter((crc32(each.encode()) % PLACES for each in features), np.int32))


@dataclass(frozen=True)
class Shape:
    """The question with its links replaced by marks: COL, TAB, VAL, NUM; what is left is how it is asked."""

    words: tuple[str, ...]
    merged: tuple[str, ...]


def shape_of(links: Links, found: Sequence[Literal], schema: Schema) -> Shape:
    words = [token.word for token in links.tokens]
    marks: dict[int, str] = {}
    for mentions, mark in ((links.fields, "COL"), (links.tables, "TAB")):
        for number, each in enumerate(mentions):
            for mention in each[:2]:
                if mention.score >= 0.75:
                    kind = schema.fields[number].kind[0] if mark == "COL" else ""
                    for at in mention.places:
                        if words[at] not in STOPWORDS or words[at] in ("number", "total"):
                            marks.setdefault(at, mark if mark == "TAB" else f"{mark}{kind}")
    for literal in found:
        for at in range(literal.start, literal.end):
            if literal.is_word:
                marks[at] = "ONE" if literal.value == 1 else "NUM"
            elif literal.kind == "flag":
                continue
            elif literal.kind == "text":
                best = max((hit.score for hit in literal.hits), default=1.0)
                capital = links.tokens[literal.start].is_capitalized and literal.start > 0
                if literal.is_quoted or (best >= 0.85 and (capital or at not in marks)):
                    marks[at] = "VAL"
            else:
                marks[at] = "NUM"
    shaped = [marks.get(at, word) for at, word in enumerate(words)]
    for at in _grouping(shaped, links):
        shaped[at] = "per"
    merged: list[str] = []
    for mark in shaped:
        if mark == "per":
            merged.extend(("for", "each"))
            continue
        short = mark[:3] if mark[:3] == "COL" else mark
        if not (merged and short in ("COL", "TAB", "VAL") and merged[-1] == short):
            merged.append(short)
    return Shape(tuple("each" if word == "per" else word for word in shaped), tuple(merged))


_SORTING = frozenset("order ordered sort sorted ordering sorting arranged ranked descending ascending".split())
_TOTALS = frozenset("many much number count total sum average mean maximum minimum highest lowest".split())


def _grouping(shaped: Sequence[str], links: Links) -> Iterable[int]:
    """Where "by" means "for each": "total revenue by region", but not "sorted by region" nor "written by"."""
    if not _TOTALS & {token.word for token in links.tokens}:
        return
    for at, word in enumerate(shaped[:-1]):
        if word != "by" or not at or shaped[at + 1][:3] not in ("COL", "TAB"):
            continue
        before = links.tokens[at - 1].word
        if not _SORTING & set(shaped[max(0, at - 4) : at]) and not before.endswith(("ed", "en", "ught", "ade")):
            yield at


_SPOKEN = {"COL": "column", "TAB": "table", "VAL": "value", "NUM": "number", "ONE": "one"}
_FORM_WEIGHT, _QUESTION_WEIGHT = 8.0, 4.0
MEANING = 768  # places of both vectors together


def meaning_of(shape: Shape, links: Links, encode: Encode | None) -> Matrix:
    """What the encoder makes of the form and of the question; beside the hashed features it tells forms apart."""
    if encode is None or links.vector is None:
        return np.zeros(MEANING, np.float32)
    form = encode([" ".join(_SPOKEN.get(word, word) for word in shape.merged)])[0]
    return np.concatenate((_FORM_WEIGHT * form, _QUESTION_WEIGHT * links.vector)).astype(np.float32)


def question_features(shape: Shape, found: Sequence[Literal], links: Links) -> Indices:
    """Runs of words, ordered pairs of cues, the beginning, and counts of what was linked."""
    words = ("<", *shape.merged, ">")
    features = ["bias"]
    for length in (1, 2, 3, 4):
        features.extend("n" + " ".join(words[at : at + length]) for at in range(len(words) - length + 1))
    for at in range(len(words) - 2):
        features.append(f"s{words[at]} _ {words[at + 2]}")
    features.extend(("b" + " ".join(words[1:3]), "b" + " ".join(words[1:4]), "b" + " ".join(words[1:5])))
    cues = [word for word in dict.fromkeys(words) if word in _CUES]
    features.extend(f"p{one}>{other}" for at, one in enumerate(cues) for other in cues[at + 1 :])
    strong = {m.places for mentions in links.fields for m in mentions[:2] if m.score >= 0.8}
    features.append(f"cols{min(len(strong), 6)}")
    texts = sum(each.kind == "text" for each in found)
    numbers = sum(each.kind not in ("text", "flag") for each in found)
    features.append(f"texts{min(texts, 3)}")
    features.append(f"numbers{min(numbers, 3)}")
    features.append(f"lits{min(texts + numbers, 4)}")
    features.extend(f"op{each.operator}{each.kind}{each.is_word}" for each in found)
    return hashed(features)


@dataclass(frozen=True)
class Competition:
    """The strongest mention at each token, over all fields and over all tables: what a field is measured against."""

    fields: NDArray[np.float32]
    tables: NDArray[np.float32]
    named: Sequence[tuple[Mention, int]]  # strong mentions of tables


def competition_of(links: Links) -> Competition:
    best = [np.zeros(len(links.tokens) + 1, np.float32) for _ in range(2)]
    for mentions, row in ((links.fields, best[0]), (links.tables, best[1])):
        for each in mentions:
            for mention in each:
                for at in mention.places:
                    row[at] = max(row[at], mention.score + 0.1 * mention.mass)
    named = [(m, number) for number, each in enumerate(links.tables) for m in each if m.score >= 0.7]
    return Competition(best[0], best[1], named)


def _bucket(value: float, step: float = 0.15) -> int:
    return int(value / step + 1e-6)


def is_name(field: Field) -> bool:
    words = name_words(field.name)
    return bool(words) and words[-1] in _NAMELIKE


def static_features(schema: Schema, number: int) -> tuple[str, ...]:
    """What a field is, whatever is asked."""
    field, joined = schema.fields[number], number in schema.joined_fields
    table = schema.tables[schema.table_of[number]]
    first = schema.fields_of[schema.table_of[number]]
    features = [f"k{field.kind}", f"key{field.is_key}", f"join{joined}", f"name{is_name(field)}"]
    features.append(f"u{field.is_unique}")
    features.append(f"few{field.distinct <= max(2, table.rows // 3)}")
    features.append(f"pos{min(number - first[0], 3)}")
    words = name_words(field.name)
    features.append(f"last{words[-1] if words else ''}")
    features.append(f"knk{field.kind}{field.is_key}{is_name(field)}{joined}")
    return tuple(features)


def field_features(
    schema: Schema,
    number: int,
    links: Links,
    shape: Shape,
    rivals: Competition,
    statics: Sequence[str],
    literals_: Sequence[Literal],
) -> Indices:
    table = schema.table_of[number]
    table_mentions = links.tables[table]
    table_score = max((m.score for m in table_mentions), default=0.0)
    features = [
        "bias",
        *statics,
        f"ts{_bucket(table_score, 0.25)}",
        f"fm{_bucket(float(links.field_meaning[number]), 0.1)}",
    ]
    features.extend(f"ts{_bucket(table_score, 0.25)}{each}" for each in statics[:5])
    lit = max((hit.score for each in literals_ for hit in each.hits if hit.field == number), default=0.0)
    features.append(f"val{_bucket(lit, 0.2)}")
    mentions = links.fields[number]
    if not mentions or mentions[0].score < 0.3:
        features.append("none")
        features.extend(f"none{each}" for each in statics)
        features.extend(f"none{shape.merged[at]}" for at in range(min(3, len(shape.merged))))
        return hashed(features)
    for rank, mention in enumerate(mentions[:2]):
        features.extend(f"{'' if rank == 0 else 'r'}{each}" for each in _mention_features(mention, shape, rivals))
    features.extend(_nearness(mentions[0], table, rivals, statics))
    strength = _bucket(mentions[0].score, 0.25)
    features.extend(f"m{strength}{each}" for each in statics)
    return hashed(features)


def _nearness(mention: Mention, table: int, rivals: Competition, statics: Sequence[str]) -> Iterable[str]:
    """Whether the table named nearest to the field is its own: "the name of the student"."""
    grade = _bucket(mention.score, 0.25)
    apart = [(_apart(mention, other), other.start >= mention.start, number) for other, number in rivals.named]
    if not apart:
        yield f"nt-none{grade}"
        return
    own = min((each for each in apart if each[2] == table), default=None)
    right = min((each for each in apart if each[1]), default=None)
    nearest = min(apart)
    yield f"nt{nearest[2] == table}{grade}"
    yield f"nt{nearest[2] == table}{statics[3]}{grade}"
    yield f"nr{right is not None and right[2] == table}{right is None}{grade}"
    if own is not None:
        yield f"no{min(own[0], 6)}{own[1]}{grade}"


def _apart(one: Mention, other: Mention) -> int:
    return max(0, other.start - one.end, one.start - other.end)


def _mention_features(mention: Mention, shape: Shape, rivals: Competition) -> Iterable[str]:
    words = shape.words
    score = mention.score + 0.1 * mention.mass
    behind = max(float(rivals.fields[at]) for at in mention.places) - score
    tabled = max(float(rivals.tables[at]) for at in mention.places) - score
    grade = "h" if mention.score >= 0.75 else "m" if mention.score >= 0.5 else "l"
    best = "b" if behind < 0.01 else "n" if behind < 0.15 else "w"
    yield f"s{_bucket(mention.score, 0.1)}"
    yield f"sp{_bucket(mention.by_spelling, 0.15)}"
    yield f"ma{_bucket(mention.mass, 0.3)}"
    yield f"be{min(_bucket(behind, 0.05), 8)}"
    yield f"tb{max(-3, min(_bucket(tabled, 0.15), 4))}{best}"
    yield f"gb{grade}{best}"
    tag = f"{grade}{best}"
    low, high = mention.start, mention.end
    left = [words[low - k] if low - k >= 0 else "<" for k in (1, 2, 3, 4)]
    right = [words[high + k] if high + k < len(words) else ">" for k in (0, 1, 2)]
    yield f"L1{left[0]}{tag}"
    yield f"L2{left[1]} {left[0]}{tag}"
    yield f"L3{left[2]} {left[1]} {left[0]}{tag}"
    yield f"L4{left[3]} {left[2]} {left[1]}{tag}"
    yield f"l2{left[1]}{tag}"
    yield f"l3{left[2]}{tag}"
    yield f"R1{right[0]}{tag}"
    yield f"R2{right[0]} {right[1]}{tag}"
    yield f"R3{right[0]} {right[1]} {right[2]}{tag}"
    yield f"LR{left[0]} {right[0]}{tag}"
    for k in range(1, 7):
        if low - k < 0:
            yield f"cue<{tag}"
            break
        if words[low - k] in _CUES:
            yield f"cue{words[low - k]}{tag}"
            yield f"cue{words[low - k]}{k}{tag}"
            break
    bounds = [word for word in words[:low] if word in _BOUNDARIES]
    yield f"bd{bounds[-1] if bounds else '<'}{tag}"
    yield f"bn{min(len(bounds), 5)}{tag}"
    yield f"po{5 * low // max(1, len(words))}{tag}"
    yield f"st{words[0]} {words[1] if len(words) > 1 else ''}{tag}{min(len(bounds), 2)}"
    seen = {word for word in words[:low] if word in _CUES}
    for word in seen:
        yield f"bc{word}{tag}"
    for word in {word for word in words[high:] if word in _CUES}:
        yield f"ac{word}{tag}"


def table_features(
    schema: Schema, number: int, links: Links, shape: Shape, rivals: Competition, field_best: Sequence[float]
) -> Indices:
    """`field_best`: of each table the strongest mention among its fields."""
    features = [
        "bias",
        f"tm{_bucket(float(links.table_meaning[number]), 0.1)}",
        f"fb{_bucket(field_best[number], 0.2)}",
    ]
    joins = sum(schema.table_of[j.left] == number for j in schema.joins)
    plain = sum(1 for f in schema.fields_of[number] if f not in schema.joined_fields)
    features.append(f"j{min(joins, 3)}p{min(plain, 3)}")
    values = max((hit.score for hit in links.values if schema.table_of[hit.field] == number), default=0.0)
    features.append(f"v{_bucket(values, 0.2)}")
    features.append(f"v{_bucket(values, 0.2)}fb{_bucket(field_best[number], 0.2)}")
    mentions = links.tables[number]
    if not mentions or mentions[0].score < 0.3:
        features.append("none")
        features.append(f"nonej{min(joins, 3)}p{min(plain, 3)}")
        return hashed(features)
    for rank, mention in enumerate(mentions[:2]):
        features.extend(f"{'' if rank == 0 else 'r'}{each}" for each in _mention_features(mention, shape, rivals))
    features.append(f"fs{_bucket(field_best[number], 0.2)}{_bucket(mentions[0].score, 0.2)}")
    return hashed(features)


def binding_features(
    schema: Schema, literal: Literal, number: int, links: Links, shape: Shape, statics: Sequence[str]
) -> Indices:
    """Whether a literal belongs to a field."""
    field = schema.fields[number]
    hit = next((each for each in literal.hits if each.field == number), None)
    features = [
        "bias",
        f"lk{_kind(literal)}",
        f"lk{_kind(literal)}w{literal.is_word}q{literal.is_quoted}op{literal.operator}",
    ]
    score = hit.score if hit else 0.0
    rival = max((each.score for each in literal.hits), default=0.0)
    features.append(f"hit{_bucket(score, 0.1)}")
    features.append(f"hr{_bucket(score, 0.1)}{_bucket(rival, 0.1)}")
    features.append(f"hits{min(len(literal.hits), 5)}h{score > 0}")
    capital = links.tokens[literal.start].is_capitalized and literal.start > 0
    features.append(f"cap{capital}h{_bucket(score, 0.2)}n{min(literal.end - literal.start, 3)}")
    features.extend(f"{_kind(literal)}h{score > 0.5}{each}" for each in statics)
    features.append(f"kind{field.kind}{_kind(literal)}{literal.operator}h{score > 0.5}")
    if (
        isinstance(literal.value, int | float)
        and isinstance(field.low, int | float)
        and isinstance(field.high, int | float)
    ):
        inside = float(field.low) <= float(literal.value) <= float(field.high)
        features.append(f"in{inside}{literal.operator}")
        year = 1500 <= literal.value <= 2100 and float(field.low) >= 1500 and float(field.high) <= 2100
        features.append(f"year{year}")
    mentions = [m for m in links.fields[number] if m.score >= 0.3]
    table = max((m.score for m in links.tables[schema.table_of[number]]), default=0.0)
    features.append(f"tb{_bucket(table, 0.25)}h{score > 0.5}")
    table_near = min(
        (abs(m.start - literal.start) for m in links.tables[schema.table_of[number]] if m.score > 0.6), default=9
    )
    features.append(f"tn{min(table_near, 6)}h{score > 0.5}")
    if not mentions:
        features.append(f"nomh{_bucket(score, 0.2)}")
        features.append(f"nom{_kind(literal)}n{is_name(field)}key{field.is_key}")
    else:
        best = min(mentions, key=lambda m: _gap(m, literal) - 3 * m.score)
        gap, side = _gap(best, literal), "l" if best.start < literal.start else "r"
        grade = _bucket(best.score, 0.25)
        features.append(f"gap{min(gap, 8)}{side}{grade}")
        features.append(f"gap{min(gap, 8)}{side}{grade}h{score > 0.5}")
        features.append(f"gs{min(gap, 8)}{_kind(literal)}{field.kind}")
        between = shape.words[min(best.end, literal.end) : max(best.start, literal.start)]
        features.append(f"bt{' '.join(between[-3:])}{grade}" if gap <= 4 else "far")
    left = shape.words[literal.start - 1] if literal.start else "<"
    left2 = shape.words[literal.start - 2] if literal.start > 1 else "<"
    right = shape.words[literal.end] if literal.end < len(shape.words) else ">"
    state = f"h{score > 0.5}m{bool(mentions)}{field.kind[0]}"
    features.extend((f"L1{left}{state}", f"L2{left2} {left}{state}", f"R1{right}{state}"))
    return hashed(features)


def _kind(literal: Literal) -> str:
    return "date" if literal.kind == "span" else literal.kind


def _gap(mention: Mention, literal: Literal) -> int:
    if mention.end <= literal.start:
        return literal.start - mention.end
    return max(0, mention.start - literal.end)


def use_features(literal: Literal, links: Links, shape: Shape) -> Indices:
    """What a literal is for: a condition, a limit, a count of groups, or nothing."""
    words = shape.words
    left = [words[literal.start - k] if literal.start - k >= 0 else "<" for k in (1, 2, 3)]
    right = [words[literal.end + k] if literal.end + k < len(words) else ">" for k in (0, 1, 2)]
    best = max((hit.score for hit in literal.hits), default=0.0)
    capital = links.tokens[literal.start].is_capitalized and literal.start > 0
    base = f"{_kind(literal)}w{literal.is_word}q{literal.is_quoted}"
    linked = max(
        (m.score for each in (*links.fields, *links.tables) for m in each if literal.start in m.places), default=0.0
    )
    features = [
        "bias",
        base,
        f"{base}op{literal.operator}",
        f"{base}h{_bucket(best, 0.1)}",
        f"{base}h{_bucket(best, 0.1)}c{capital}",
    ]
    features.append(f"{base}c{capital}li{_bucket(linked, 0.2)}h{_bucket(best, 0.2)}")
    features.append(f"len{min(literal.end - literal.start, 3)}c{capital}{_kind(literal)}")
    features.extend((f"L1{left[0]}{_kind(literal)}", f"L2{left[1]} {left[0]}", f"L3{left[2]} {left[1]} {left[0]}"))
    features.extend(
        (f"R1{right[0]}{_kind(literal)}", f"R2{right[0]} {right[1]}", f"R3{right[0]} {right[1]} {right[2]}")
    )
    features.append(f"LR{left[0]} {right[0]}")
    features.extend(f"cue{each}{_kind(literal)}" for each in literal.cues)
    if isinstance(literal.value, int | float):
        value = literal.value
        features.append(f"mag{0 if value < 2 else 1 if value <= 10 else 2 if value < 1000 else 3}{literal.operator}")
        features.append(f"year{1800 <= value <= 2100}")
    features.extend(
        f"has{word}{_kind(literal)}"
        for word in set(words) & {"top", "most", "least", "more", "each", "highest", "lowest"}
    )
    return hashed(features)
