"""What frameworks say in words, made fit for a store: no NUL, no half characters, not endless."""

from __future__ import annotations

MOST_CHARACTERS = 50_000  # of one text that is found by its words


def storable(text: str) -> str:
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def clipped(text: str, most: int = MOST_CHARACTERS) -> str:
    return storable(text)[:most]
