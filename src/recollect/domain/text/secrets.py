"""Finding secrets in a text: where they stand and what they are. What is done about them, services/secrets.py says.

Ordinary text costs little: keys have long words, so only texts with such words are searched for the beginnings of keys,
and a pattern is tried only where a hint stands. Every pattern is bounded, so the time grows with the text and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from recollect.domain.text.secret_formats import FORMATS, LEAST_OF_A_TOKEN, SecretFormat

SHORTEST = 8
"""No text that holds a secret is shorter."""
MARK = "[secret: "
SecretMode = Literal["mask", "refuse", "keep"]


@dataclass(frozen=True, slots=True)
class SecretPolicy:
    """What the settings say of secrets; services/secrets.py does it."""

    mode: SecretMode = "mask"
    in_files: SecretMode | None = None
    """In the files of workspaces; None: the same as elsewhere."""
    allow: tuple[str, ...] = ()
    """Values that are not secrets: expressions, or `sha256:` and a hash."""
    formats: tuple[SecretFormat, ...] = FORMATS

    def allows(self, value: str) -> bool:
        hashes = f"sha256:{sha256(value.encode('utf-8', 'replace')).hexdigest()}" if self.allow else ""
        return any(one == hashes or re.fullmatch(one, value) for one in self.allow)


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A secret at a place of a text."""

    kind: str
    start: int
    end: int
    is_random: bool


def find(text: str, formats: Sequence[SecretFormat] = FORMATS) -> list[FoundSecret]:
    """The secrets in a text, in order. Those that overlap count as one, of the kind of the first."""
    if len(text) < SHORTEST:
        return []
    long_words = [word for word in text.split() if len(word) >= LEAST_OF_A_TOKEN]
    longest = max(map(len, long_words), default=0)
    words, lowered = " ".join(long_words), _lowered(text)
    found: list[FoundSecret] = []
    if not long_words and not _may_be_in(formats, text, lowered):
        return []
    for one in formats:
        if one.least > longest or (one.gate is not None and not one.gate.search(text)):
            continue
        searched = lowered if one.any_case else words if one.least else text
        for hint in one.hints:  # most texts have none: this loop is nearly all that they cost
            if hint in searched:
                if any(other in searched for other in one.beside):
                    found += _matches(one, text, lowered)
                break
    return _joined(found) if found else found


def all_harmless(texts: Sequence[str], formats: Sequence[SecretFormat] = FORMATS) -> bool:
    """Whether `find` finds nothing in any of these, seen by one look at all of them: that costs hardly more than a look
    at one. False where it cannot be told so.
    """
    joined = "\n".join(texts)
    if len(max(joined.split(), key=len, default="")) >= LEAST_OF_A_TOKEN:
        return False
    lowered = joined.lower() if joined.isascii() else "\n".join(map(_lowered, texts))
    return not _may_be_in(formats, joined, lowered)


@dataclass(frozen=True, slots=True)
class _ShortWords:
    """What some formats look for in a text of short words, as most texts are: all their hints together."""

    formats: Sequence[SecretFormat]
    hints: tuple[str, ...]
    lowered_hints: tuple[str, ...]
    gates: tuple[re.Pattern[str], ...]
    are_all_hinted: bool


_prepared: list[_ShortWords] = []
_MOST_PREPARED = 8  # of as many settings in one process


def _may_be_in(formats: Sequence[SecretFormat], text: str, lowered: str) -> bool:
    """Whether a text without long words is worth a look at each format."""
    known = next((one for one in _prepared if one.formats is formats), None) or _prepare(formats)
    if not known.are_all_hinted:
        return True
    for hint in known.lowered_hints:
        if hint in lowered:
            return True
    for hint in known.hints:
        if hint in text:
            return True
    return any(gate.search(text) for gate in known.gates)


def _prepare(formats: Sequence[SecretFormat]) -> _ShortWords:
    short = [one for one in formats if not one.least]
    hinted = [one for one in short if all(one.hints)]
    gated = [one.gate for one in short if one not in hinted and one.gate is not None]
    made = _ShortWords(
        formats,
        tuple(hint for one in hinted if not one.any_case for hint in one.hints),
        tuple(hint for one in hinted if one.any_case for hint in one.hints),
        tuple(gated),
        len(hinted) + len(gated) == len(short),
    )
    if len(_prepared) < _MOST_PREPARED:
        _prepared.append(made)
    return made


def without_secrets(text: str) -> str:
    """A text to show or log whose secrets are replaced by what they are."""
    for secret in reversed(find(text)):
        text = f"{text[: secret.start]}{MARK}{secret.kind}]{text[secret.end :]}"
    return text


def _lowered(text: str) -> str:
    """In small letters, each in its place: a few letters become two."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _matches(one: SecretFormat, text: str, lowered: str) -> Iterator[FoundSecret]:
    matches = _anchored(one, text, lowered) if one.is_anchored else one.pattern.finditer(text)
    for match in matches:
        group = next((name for name in match.re.groupindex if match[name] is not None), 0)
        start, end = match.span(group)
        if one.is_likely(text[start:end]):
            yield FoundSecret(one.kind, start, end, one.is_random)


def _anchored(one: SecretFormat, text: str, lowered: str) -> Iterator[re.Match[str]]:
    searched = lowered if one.any_case else text
    for hint in one.hints:
        place = searched.find(hint)
        while place >= 0:
            match = one.pattern.match(text, place)
            if match is not None:
                yield match
            place = searched.find(hint, max(match.end() if match is not None else 0, place + len(hint)))


def _joined(found: list[FoundSecret]) -> list[FoundSecret]:
    """In order, none inside another; of those that begin together, the first format comes first."""
    joined: list[FoundSecret] = []
    for one in sorted(found, key=lambda secret: secret.start):
        if joined and one.start < joined[-1].end:
            joined[-1] = replace(joined[-1], end=max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return joined
