"""The result of a query in words: what a memory of it says, and what changed since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

from recollect.domain.record import JsonArray, clipped

MOST_CELLS = 20
LONGEST_CELL = 200
_SMALL_TABLE = 20  # rows that are all told
_FIRST_ROWS = 10  # of a larger one
_LONGEST_TEXT = 4_000
_TOLD_CHANGES = 3

Rows = Sequence[Sequence[object]]


def first_cells(rows: Rows) -> JsonArray:
    """As many of the first rows as have 20 cells together, one at least; long texts are cut."""
    width = max((len(row) for row in rows[:1]), default=1)
    return [[_short(cell) for cell in row[:MOST_CELLS]] for row in rows[: max(1, MOST_CELLS // max(1, width))]]


def answer_text(question: str, columns: Sequence[str], rows: Rows, row_count: int | None) -> str:
    """A result as a statement: one value after the question, a small table whole, of a large one the first rows."""
    asked = question.strip().rstrip("?？:：").rstrip()
    count = len(rows) if row_count is None else row_count
    if not rows:
        return f"{asked}: no rows"
    if count == 1:
        return clipped(f"{asked}: {_row(columns, rows[0])}", _LONGEST_TEXT)
    shown = rows if count <= _SMALL_TABLE and len(rows) == count else rows[:_FIRST_ROWS]
    lines = [f"{asked}:", *(f"- {_row(columns, row)}" for row in shown)]
    text = clipped("\n".join(lines), _LONGEST_TEXT)
    return text if len(shown) == count else f"{text}\n({count:,} rows; these are the first {len(shown)})"


def change_in_words(before: Rows, after: Rows, count_before: int | None, count_after: int | None) -> str:
    """What is different: the value that was and the one that is, or the rows that came and went."""
    if len(before) == len(after) == 1 and len(before[0]) == len(after[0]):
        pairs = [(old, new) for old, new in zip(before[0], after[0], strict=True) if old != new]
        if pairs:
            return f"was {_listed(old for old, _ in pairs)}, is {_listed(new for _, new in pairs)}"
    gone = [row for row in before if row not in after]
    come = [row for row in after if row not in before]
    told = [f"{word} {_rows(rows)}" for word, rows in (("was", gone), ("is", come)) if rows]
    if count_before != count_after:
        told.append(f"{_count(count_before)} before, {_count(count_after)} now")
    return ", ".join(told) or "in rows after the first"


def in_words(value: object) -> str:
    """A value as people write it: numbers with separators of thousands."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        try:
            return f"{Decimal(repr(round(value, 6))).normalize():,f}"
        except InvalidOperation:  # infinite, or no number
            return str(value)
    return str(_short(value)) if isinstance(value, str) else clipped(str(value), LONGEST_CELL)


def _row(columns: Sequence[str], row: Sequence[object]) -> str:
    """A name and its number read well as they are; more values need the names of their columns."""
    if len(row) == 1:
        return in_words(row[0])
    if len(row) == 2 and isinstance(row[0], str):
        return f"{in_words(row[0])}: {in_words(row[1])}"
    named = zip(columns, row, strict=False)
    return ", ".join(f"{name} {value if 'year' in name.lower() else in_words(value)}" for name, value in named)


def _rows(rows: Rows) -> str:
    told = "; ".join(_listed(row) for row in rows[:_TOLD_CHANGES])
    return told + (" …" if len(rows) > _TOLD_CHANGES else "")


def _listed(values: Iterable[object]) -> str:
    return " ".join(map(in_words, values))


def _count(count: int | None) -> str:
    if count is None:
        return "over a million rows"
    return "1 row" if count == 1 else f"{count:,} rows"


def _short(value: object) -> object:
    return clipped(value, LONGEST_CELL) if isinstance(value, str) else value
