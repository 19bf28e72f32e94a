"""What a checkpoint shares with the one before it, worked out on the caller's side.

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
from typing import Any, Protocol

from langchain_core.messages import BaseMessage

INLINE = 128  # bytes; a reference and a row of its own cost about as much
MOST_PIECES = 64
VALUES = ""

Span = tuple[int, int]
_ATOMIC = (str, bytes, int, float, bool, type(None))
_UNKNOWN = object()


class Serializer(Protocol):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


def dump(serde: Serializer, value: Any) -> bytes:
    """A value as bytes, the name of its form included."""
    form, data = serde.dumps_typed(value)
    name = form.encode()
    return bytes([len(name)]) + name + data


def load(serde: Serializer, raw: bytes) -> Any:
    end = raw[0] + 1
    return serde.loads_typed((raw[1:end].decode(), raw[end:]))


def digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def frozen(value: Any) -> Any:
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


@dataclass(frozen=True, slots=True)
class Member:
    """A stored member of a list: the object we saw, what it looked like, and its number in the stream."""

    value: Any
    likeness: Any
    digest: bytes
    number: int

    def is_still(self, value: Any) -> bool:
        if value is not self.value or self.likeness is _UNKNOWN:
            return False
        if isinstance(value, BaseMessage):
            return bool(value.__dict__ == self.likeness[0] and value.__pydantic_extra__ == self.likeness[1])
        return isinstance(value, _ATOMIC) or bool(value == self.likeness)


@dataclass(slots=True)
class Known:
    """What we know to be stored: one checkpoint of a line, channel by channel."""

    id: str
    channels: dict[str, Any] = field(default_factory=dict)
    references: dict[str, list[Any]] = field(default_factory=dict)
    members: dict[str, list[Member]] = field(default_factory=dict)
    values: dict[str, tuple[bytes, int]] = field(default_factory=dict)


class Draft:
    """Turns the values of a checkpoint into references, new items and the stretches it shares with a known one.

    New items are numbered -1, -2, … until the store has said where they begin.
    """

    def __init__(self, serde: Serializer, known: Known | None) -> None:
        self._serde = serde
        self._known = known
        self.references: dict[str, list[Any]] = {}
        self.items: dict[str, list[bytes]] = {}
        self._members: dict[str, list[Member]] = {}
        self._values: dict[str, tuple[bytes, int]] = {}
        self._channels: dict[str, Any] = {}

    def add(self, channel: str, value: Any, *, is_unchanged: bool) -> None:
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

    def _same_as_known(self, channel: str, value: Any) -> bool:
        """Whether it is the very object that is stored already; a list may have been changed in place."""
        known = self._known
        if known is None or channel not in known.references or known.channels[channel] is not value:
            return False
        members = known.members.get(channel)
        if members is not None:
            if len(members) != len(value) or not all(map(Member.is_still, members, value)):
                return False
            self._members[channel] = members
        if channel in known.values:
            self._values[channel] = known.values[channel]
        self.references[channel] = known.references[channel]
        return True

    def _add_list(self, channel: str, value: list[Any]) -> bool:
        """False for a short list that is not worth a stream."""
        before = self._known.members.get(channel, []) if self._known else []
        matched, raws = self._matched(value, before)
        if not before and sum(map(len, raws.values())) <= INLINE:
            return False
        if len(_pieces(matched)) > MOST_PIECES:
            raws = {place: dump(self._serde, one) for place, one in enumerate(value)}
            matched = [None] * len(value)
        members: list[Member] = []
        for place, (one, found) in enumerate(zip(value, matched, strict=True)):
            if found is None:
                raw = raws[place]
                found = Member(one, frozen(one), digest(raw), self._append(channel, raw))
            elif found.value is not one:
                found = Member(one, frozen(one), found.digest, found.number)
            members.append(found)
        self._members[channel] = members
        self.references[channel] = ["*", _runs(member.number for member in members)]
        return True

    def _matched(self, value: list[Any], before: list[Member]) -> tuple[list[Member | None], dict[int, bytes]]:
        """For each member of the list the stored one it equals, and the bytes of those that had to be serialised."""
        matched: list[Member | None] = []
        raws: dict[int, bytes] = {}
        places: dict[bytes, int] | None = None
        expected = 0
        for place, one in enumerate(value):
            near = before[expected] if expected < len(before) else None
            if near is not None and near.is_still(one):
                matched.append(near)
                expected += 1
                continue
            raw = raws[place] = dump(self._serde, one)
            found = None
            if near is not None:
                if places is None:
                    places = {member.digest: number for number, member in reversed(list(enumerate(before)))}
                mark = digest(raw)
                at = expected if near.digest == mark else places.get(mark)
                if at is not None:
                    found, expected = before[at], at + 1
            matched.append(found)
        return matched, raws

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

    def known_as(self, id: str, starts: Mapping[str, int]) -> Known:
        """What is known once the store has numbered the new items."""
        members = {
            channel: [
                member
                if member.number >= 0
                else Member(member.value, member.likeness, member.digest, resolved(member.number, starts[channel]))
                for member in some
            ]
            for channel, some in self._members.items()
        }
        values = {
            channel: (mark, number if number >= 0 else resolved(number, starts[VALUES]))
            for channel, (mark, number) in self._values.items()
        }
        references = {
            channel: absolute(reference, starts.get(VALUES if reference[0] == "#" else channel, 0))
            for channel, reference in self.references.items()
        }
        return Known(id, self._channels, references, members, values)


def resolved(number: int, start: int) -> int:
    """The number of an item, whether it was stored before or came with the checkpoint."""
    return number if number >= 0 else start - number - 1


def absolute(reference: list[Any], start: int) -> list[Any]:
    if reference[0] == "=":
        return reference
    if reference[0] == "#":
        return ["#", resolved(reference[1], start)]
    return ["*", [[first, last] if first >= 0 else [resolved(first, start), resolved(last, start)] for first, last in
                  reference[1]]]  # fmt: skip


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


def _pieces(matched: Sequence[Member | None]) -> list[list[int]]:
    return _runs(member.number if member else -1 - place for place, member in enumerate(matched))


class Items:
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
    serde: Serializer, id: str, references: Mapping[str, list[Any]], starts: Mapping[str, int], items: Items
) -> tuple[dict[str, Any], Known]:
    """The values behind the references, and what is thereby known to be stored."""
    known = Known(id)
    for channel, given in references.items():
        reference = absolute(given, starts.get(VALUES if given[0] == "#" else channel, 0))
        known.references[channel] = reference
        if reference[0] == "*":
            value: Any = _restored_list(serde, channel, reference[1], items, known)
        else:
            number = reference[1]
            raw = number if reference[0] == "=" else items.stretch(VALUES, number, number + 1)[0]
            value = load(serde, raw)
            if reference[0] == "#":
                known.values[channel] = (digest(raw), number)
        known.channels[channel] = value
    return dict(known.channels), known


def _restored_list(serde: Serializer, channel: str, stretches: Sequence[Span], items: Items, known: Known) -> list[Any]:
    members: list[Member] = []
    for start, end in stretches:
        for number, raw in enumerate(items.stretch(channel, start, end), start):
            value = load(serde, raw)
            members.append(Member(value, frozen(value), digest(raw), number))
    known.members[channel] = members
    return [member.value for member in members]
