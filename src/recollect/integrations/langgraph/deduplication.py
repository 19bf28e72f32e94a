"""A checkpoint stores only what the one before it did not: the client works out what they share.

Small values stand in the checkpoint itself. A larger one is an item of the stream "", and the members of a list are
items of a stream named after its channel; a checkpoint refers to items by number. What is already stored is
recognised without writing it again: a message that is the same object as before and has not been changed since is not
even serialised, anything else is serialised and compared by digest. So a message that was changed in place is saved.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import Any, Protocol

from langchain_core.messages import BaseMessage

INLINE = 128  # bytes; a reference and a row of its own cost about as much
MOST_PIECES = 64
VALUES = ""

Span = tuple[int, int]
Reference = list[Any]
"""As it is stored: ["=", bytes], ["#", number of an item] or ["*", stretches of numbers]."""
_ATOMIC = (str, bytes, int, float, bool, type(None))
_UNKNOWN = object()


class Serializer(Protocol):
    def dumps_typed(self, obj: object) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes]) -> object: ...


def dump(serde: Serializer, value: object) -> bytes:
    """A value as bytes, the name of its form included."""
    form, data = serde.dumps_typed(value)
    name = form.encode()
    return bytes([len(name)]) + name + data


def load(serde: Serializer, raw: bytes) -> object:
    end = raw[0] + 1
    return serde.loads_typed((raw[1:end].decode(), raw[end:]))


def digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def frozen(value: object) -> object:
    """A likeness of the value that later changes of it do not reach; `_UNKNOWN` for what we cannot tell."""
    if isinstance(value, _ATOMIC):
        return value
    if isinstance(value, BaseMessage):
        fields, extra = frozen(value.__dict__), frozen(value.__pydantic_extra__)
        return _UNKNOWN if fields is _UNKNOWN or extra is _UNKNOWN else (fields, extra)
    if type(value) is dict:
        copied = {key: frozen(inner) for key, inner in value.items()}
        return _UNKNOWN if any(inner is _UNKNOWN for inner in copied.values()) else copied
    if type(value) is list:
        members = [frozen(inner) for inner in value]
        return _UNKNOWN if any(inner is _UNKNOWN for inner in members) else members
    return _UNKNOWN


def _looks(values: Sequence[object]) -> list[object]:
    """What the values look like now, to be compared with what they were frozen as."""
    try:
        return list(map(_message_look, values))
    except AttributeError:  # not messages only
        return [_message_look(value) if isinstance(value, BaseMessage) else value for value in values]


_message_look = attrgetter("__dict__", "__pydantic_extra__")


@dataclass(slots=True)
class StoredList:
    """The stored members of a list, column by column, so that thousands are compared in one go.

    For each the object we saw, what it looked like, the digest of its bytes and its number in the stream. The first
    `sure` are those before any whose likeness we cannot tell.
    """

    values: list[object] = field(default_factory=list)
    likenesses: list[object] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sure: int = 0

    def add(self, value: object, mark: bytes, number: int) -> None:
        likeness = frozen(value)
        if likeness is not _UNKNOWN and self.sure == len(self.values):
            self.sure += 1
        self.values.append(value)
        self.likenesses.append(likeness)
        self.digests.append(mark)
        self.numbers.append(number)

    def first(self, count: int) -> StoredList:
        columns = (self.values[:count], self.likenesses[:count], self.digests[:count], self.numbers[:count])
        return StoredList(*columns, sure=min(self.sure, count))

    def still(self, values: Sequence[object]) -> int:
        """How many at the beginning of the list are the very objects that are stored, and unchanged."""
        count = min(len(values), self.sure)
        if all(map(is_, values[:count], self.values)) and self._look_alike(values, 0, count):
            return count
        return next((place for place in range(count) if not self.is_still(place, values[place])), count)

    def is_still(self, place: int, value: object) -> bool:
        if value is not self.values[place] or self.likenesses[place] is _UNKNOWN:
            return False
        return self._look_alike([value], place, place + 1)

    def _look_alike(self, values: Sequence[object], start: int, end: int) -> bool:
        try:
            return _looks(values[: end - start]) == self.likenesses[start:end]
        except ValueError:  # an array has come into one of them: it does not say whether it equals something else
            return False


@dataclass(slots=True)
class StoredCheckpoint:
    """What we know to be stored: one checkpoint of a line, channel by channel."""

    id: str
    channels: dict[str, object] = field(default_factory=dict)
    references: dict[str, Reference] = field(default_factory=dict)
    members: dict[str, StoredList] = field(default_factory=dict)
    values: dict[str, tuple[bytes, int]] = field(default_factory=dict)


class CheckpointDraft:
    """Turns the values of a checkpoint into references, new items and the stretches it shares with a known one.

    New items are numbered -1, -2, … until the store has said where they begin.
    """

    def __init__(self, serde: Serializer, known: StoredCheckpoint | None) -> None:
        self._serde = serde
        self._known = known
        self.references: dict[str, Reference] = {}
        self.items: dict[str, list[bytes]] = {}
        self._members: dict[str, StoredList] = {}
        self._kept: dict[str, int] = {}  # of how many at the beginning of a list the numbers are known
        self._values: dict[str, tuple[bytes, int]] = {}
        self._channels: dict[str, object] = {}

    def add(self, channel: str, value: object, *, is_unchanged: bool) -> None:
        self._channels[channel] = value
        if is_unchanged and self._same_as_known(channel, value):
            return
        if type(value) is list and value and channel != VALUES and self._add_list(channel, value):
            return
        raw = dump(self._serde, value)
        if len(raw) <= INLINE:
            self.references[channel] = ["=", raw]
            return
        mark = digest(raw)
        before = self._known.values.get(channel) if self._known else None
        number = before[1] if before and before[0] == mark else self._append(VALUES, raw)
        self._values[channel] = (mark, number)
        self.references[channel] = ["#", number]

    def _same_as_known(self, channel: str, value: object) -> bool:
        """Whether it is the very object that is stored already; a list may have been changed in place."""
        known = self._known
        if known is None or channel not in known.references or known.channels[channel] is not value:
            return False
        members = known.members.get(channel)
        if members is not None:
            if not isinstance(value, list) or not len(members.values) == len(value) == members.still(value):
                return False
            self._members[channel] = members
        if channel in known.values:
            self._values[channel] = known.values[channel]
        self.references[channel] = known.references[channel]
        return True

    def _add_list(self, channel: str, value: list[object]) -> bool:
        """False for a short list that is not worth a stream."""
        before = self._known.members.get(channel) if self._known else None
        kept = before.still(value) if before else 0
        members, fresh = self._matched(value, before or StoredList(), kept)
        if before is None and sum(map(len, fresh)) <= INLINE:
            return False
        stretches = self._stretches(channel, members, kept)
        if len(stretches) > MOST_PIECES:
            members, fresh = self._matched(value, StoredList(), 0)
            stretches, kept = _runs(members.numbers), 0
        self._members[channel], self._kept[channel] = members, kept
        if fresh:
            self.items[channel] = fresh
        self.references[channel] = ["*", stretches]
        return True

    def _stretches(self, channel: str, members: StoredList, kept: int) -> list[list[int]]:
        """The numbers as stretches; when a list has only grown, those of what was there are known."""
        before = self._known.members.get(channel) if self._known else None
        if self._known is None or before is None or kept < len(before.values):
            return _runs(members.numbers)
        return [*self._known.references[channel][1], *_runs(members.numbers[kept:])]

    def _matched(self, value: list[object], before: StoredList, kept: int) -> tuple[StoredList, list[bytes]]:
        """The members of the list, as stored before where they are, and the bytes of those that are new."""
        members, fresh, expected = before.first(kept), list[bytes](), kept
        places: dict[bytes, int] | None = None
        for one in value[kept:]:
            if expected == len(before.values):
                raw = dump(self._serde, one)
                fresh.append(raw)
                members.add(one, digest(raw), -len(fresh))
                continue
            at: int | None = expected
            mark = before.digests[expected]
            if not before.is_still(expected, one):
                raw = dump(self._serde, one)
                mark = digest(raw)
                if places is None:
                    places = {kept: place for place, kept in reversed(list(enumerate(before.digests)))}
                at = expected if before.digests[expected] == mark else places.get(mark)
            if at is None:
                fresh.append(raw)
                members.add(one, mark, -len(fresh))
            else:
                members.add(one, mark, before.numbers[at])
                expected = at + 1
        return members, fresh

    def _append(self, stream: str, raw: bytes) -> int:
        fresh = self.items.setdefault(stream, [])
        fresh.append(raw)
        return -len(fresh)

    def spans(self) -> dict[str, list[Span]]:
        """The stored items that are used, by stream."""
        shared = {
            channel: [(start, end) for start, end in reference[1] if start >= 0]
            for channel, reference in self.references.items()
            if reference[0] == "*"
        }
        shared[VALUES] = [(number, number + 1) for _, number in self._values.values() if number >= 0]
        return {stream: spans for stream, spans in shared.items() if spans}

    def known_as(self, id: str, starts: Mapping[str, int]) -> StoredCheckpoint:
        """What is known once the store has numbered the new items."""
        for channel, members in self._members.items():
            if channel in self.items:
                kept, start = self._kept[channel], starts[channel]
                members.numbers[kept:] = [resolved(number, start) for number in members.numbers[kept:]]
        values = {
            channel: (mark, number if number >= 0 else resolved(number, starts[VALUES]))
            for channel, (mark, number) in self._values.items()
        }
        references = {
            channel: absolute(reference, starts.get(VALUES if reference[0] == "#" else channel, 0))
            for channel, reference in self.references.items()
        }
        return StoredCheckpoint(id, self._channels, references, self._members, values)


def resolved(number: int, start: int) -> int:
    """The number of an item, whether it was stored before or came with the checkpoint."""
    return number if number >= 0 else start - number - 1


def absolute(reference: Reference, start: int) -> Reference:
    if reference[0] == "=":
        return reference
    if reference[0] == "#":
        return ["#", resolved(reference[1], start)]
    stretches: list[list[int]] = []
    for first, last in reference[1]:
        begin, end = (first, last) if first >= 0 else (resolved(first, start), resolved(last, start))
        if stretches and stretches[-1][1] == begin:
            stretches[-1][1] = end
        else:
            stretches.append([begin, end])
    return ["*", stretches]


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as stretches from, up to but not including; new items count downwards."""
    runs: list[list[int]] = []
    end: int | None = None
    step = 1
    for number in numbers:
        if number != end:
            if end is not None:
                runs[-1][1] = end
            step = 1 if number >= 0 else -1
            runs.append([number, number])
        end = number + step
    if end is not None:
        runs[-1][1] = end
    return runs


class StoredItems:
    """The items that came with a page, found by stream and number."""

    def __init__(self, spans: Mapping[str, Sequence[Span]], items: Mapping[str, Sequence[bytes]]) -> None:
        self._items = items
        self._firsts = {stream: [start for start, _ in some] for stream, some in spans.items()}
        self._offsets: dict[str, list[int]] = {}
        for stream, some in spans.items():
            total, offsets = 0, []
            for start, end in some:
                offsets.append(total - start)
                total += end - start
            self._offsets[stream] = offsets

    def stretch(self, stream: str, start: int, end: int) -> Sequence[bytes]:
        offset = self._offsets[stream][bisect_right(self._firsts[stream], start) - 1]
        return self._items[stream][start + offset : end + offset]


def restored(
    serde: Serializer, id: str, references: Mapping[str, Reference], starts: Mapping[str, int], items: StoredItems
) -> tuple[dict[str, object], StoredCheckpoint]:
    """The values behind the references, and what is thereby known to be stored."""
    known = StoredCheckpoint(id)
    for channel, given in references.items():
        reference = absolute(given, starts.get(VALUES if given[0] == "#" else channel, 0))
        known.references[channel] = reference
        if reference[0] == "*":
            value: object = _restored_list(serde, channel, reference[1], items, known)
        else:
            number = reference[1]
            raw = number if reference[0] == "=" else items.stretch(VALUES, number, number + 1)[0]
            value = load(serde, raw)
            if reference[0] == "#":
                known.values[channel] = (digest(raw), number)
        known.channels[channel] = value
    return dict(known.channels), known


def _restored_list(
    serde: Serializer, channel: str, stretches: Sequence[Span], items: StoredItems, known: StoredCheckpoint
) -> list[object]:
    members = StoredList()
    for start, end in stretches:
        for number, raw in enumerate(items.stretch(channel, start, end), start):
            members.add(load(serde, raw), digest(raw), number)
    known.members[channel] = members
    return list(members.values)
