"""Texts of somebody else's beside our own: without the characters that would move, colour or reorder what is near."""

from __future__ import annotations

import unicodedata

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they would reorder what stands beside


def clean(text: object) -> str:
    """On one line: line ends are shown, other control characters replaced."""
    shown = str(text).replace("\r\n", "⏎").replace("\n", "⏎").replace("\r", "⏎").replace("\t", " ")
    return _replaced(shown)


def clean_lines(text: object) -> str:
    """With its line ends and tabs; other control characters are replaced."""
    return "\n".join(
        "\t".join(map(_replaced, line.split("\t"))) for line in str(text).replace("\r\n", "\n").split("\n")
    )


def _replaced(text: str) -> str:
    return "".join("\ufffd" if unicodedata.category(one) in ("Cc", "Cs") or one in _BIDI else one for one in text)
