"""JSON of any size, one value at a time: arrays, JSON Lines, and objects that wrap a long list.

A value is decoded when all of it has been read. The buffer doubles while a value does not end in it, so the work is
linear in the size of the file, and at most one value is in memory. A file that was cut short and one that is not JSON
are told apart, since they need different remedies.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator
from typing import IO

from recollect.errors import InvalidInput, TooLarge

CHUNK = 1 << 20
LARGEST_VALUE = 64 << 20
_DECODER = json.JSONDecoder()
_UNFINISHED = 16  # characters before the end of the buffer, where an error may only mean that more is to come


def values(file: IO[bytes], name: str, wrappers: Collection[str] = ()) -> Iterator[tuple[str, object]]:
    """Every value of a file: the members of an array, or each of the values that follow each other.

    The lists of an object that `wrappers` names are read member by member, each with the name of its list; the other
    fields of that object come after them, as one object.
    """
    stream = _JsonStream(file, name)
    start = stream.peek()
    if start == "":
        raise InvalidInput(f"'{name}' is empty", remedy="export it again")
    if start == "[":
        yield from (("", value) for value in stream.members())
        if stream.peek():
            raise stream.malformed()
        return
    while stream.peek():
        if stream.peek() == "{" and wrappers:
            yield from stream.unwrapped(wrappers)
        else:
            yield "", stream.value()


class _JsonStream:
    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._before, self._ended = "", 0, 0, False

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text):
                if not self._text[self._at].isspace():
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def value(self) -> object:
        self.peek()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                may_go_on = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _UNFINISHED
                if not may_go_on:
                    raise self.malformed(error.pos) from None
                if not self._more():
                    raise self._cut_short() from None
            except (ValueError, RecursionError):  # a number of thousands of digits, or nested too deeply
                raise self.malformed() from None
            else:
                if end < len(self._text) or not self._more():  # a number might go on
                    self._at = end
                    value: object = found
                    return value

    def members(self) -> Iterator[object]:
        """The members of the array that begins here."""
        self._take("[")
        if self.peek() == "]":
            return self._take("]")
        while True:
            yield self.value()
            if self.peek() != ",":
                return self._take("]")
            self._take(",")

    def unwrapped(self, wrappers: Collection[str]) -> Iterator[tuple[str, object]]:
        """The object that begins here: the members of the lists it wraps, then the rest of it."""
        rest: dict[str, object] = {}
        begun = self._before + self._at
        self._take("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise self.malformed()
            self._take(":")
            if key in wrappers and self.peek() == "[":
                yield from ((key, member) for member in self.members())
                begun = self._before + self._at
            else:
                rest[key] = self.value()
                if self._before + self._at - begun > LARGEST_VALUE:
                    raise self._too_large()
            if self.peek() == ",":
                self._take(",")
            elif self.peek() != "}":
                raise self.malformed()
        self._take("}")
        if rest:
            yield "", rest

    def _take(self, wanted: str) -> None:
        found = self.peek()
        if not found:
            raise self._cut_short()
        if found != wanted:
            raise self.malformed()
        self._at += 1

    def _more(self) -> bool:
        if self._ended:
            return False
        kept = self._text[self._at :]
        if len(kept) > LARGEST_VALUE:
            raise self._too_large()
        raw = self._file.read(max(CHUNK, len(kept)))
        try:
            read = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError:
            raise InvalidInput(f"'{self._name}' is not UTF-8 text", remedy="give a JSON file in UTF-8") from None
        self._before += self._at
        self._text, self._at, self._ended = kept + read, 0, not raw
        return not self._ended

    def malformed(self, at: int | None = None) -> InvalidInput:
        place = self._before + (self._at if at is None else at)
        return InvalidInput(
            f"'{self._name}' is not JSON at character {place:,}", remedy="export it again, or give another file"
        )

    def _cut_short(self) -> InvalidInput:
        return InvalidInput(f"'{self._name}' was cut short: its JSON does not end", remedy="export or copy it again")

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"'{self._name}' has one value of more than {LARGEST_VALUE:,} characters",
            remedy="export it as a JSON array or as JSON Lines, one record each",
        )
