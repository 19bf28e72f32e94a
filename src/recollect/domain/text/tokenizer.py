"""What a text can be found by: one way of making terms, for every store's text index, for questions and for ranking.

A store indexes the terms it is handed and knows nothing of words; so the same question finds the same on all of them.

- Words are folded (case, width, accents: "naïve" is "naive") and stripped of common English endings.
- `err-4012` gives its words and each two neighbours as one term, `err-4012`: an identifier is found by any stretch of
  it, however it is spelt (`ERR_4012`, `err.4012`).
- Scripts that put no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Myanmar, Tibetan), and Korean, whose
  words end in particles, give every two neighbouring characters. A single character is a term of the text too, and of
  the question where it stands alone.
- An emoji is a term.

A term has at most LONGEST characters, no space and, but for `-` between two words, no ASCII but letters and digits.
Everything takes time in proportion to the text; `VERSION` goes up when the same text would give other terms, and a
store that was indexed by another version makes its index again when it is opened.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Literal

VERSION = 1
LONGEST = 64
HALF = 31  # of a term made of two words
MOST_BYTES = 1_000_000  # of the terms of one record: PostgreSQL takes a megabyte, so nobody indexes more
_CERTAINLY_LESS = 80_000  # characters, which cannot make so many bytes

# Characters without spaces between words. Hangul has them, but a question names 학교 and a text says 학교에서.
_PAIRED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3031-\u3035\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff"
    "\U00016fe0-\U00016fff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_PAIRED_SIGNS = "\u0e2f\u0e3f\u0e46\u0e4f\u0e5a\u0e5b\u0f04-\u0f14\u104a-\u104f\u17d4-\u17db\u30a0\u30fb"
_EMOJI = "\u2600-\u27bf\u2b50-\u2b55\U0001f000-\U0001faff"
# Of scripts whose vowels are marks; for Python a mark is no part of a word.
_MARKED = "\u0900-\u0963\u0966-\u0dff\u1700-\u177f\u1900-\u1aff\u1b00-\u1cff\ua800-\ua8ff\ua900-\ua95f\uaa00-\uaa5f"
_LETTER = rf"(?:(?![{_PAIRED}{_EMOJI}])[^\W_]|[{_MARKED}])"
_JOINT = "[-_./:@#]"

_ASCII_TOKEN = re.compile(rf"[a-z0-9]++(?:{_JOINT}++[a-z0-9]++)*+")
_TOKEN = re.compile(rf"{_LETTER}++(?:{_JOINT}++{_LETTER}++)*+|(?:(?![{_PAIRED_SIGNS}])[{_PAIRED}])++|[{_EMOJI}]")
_IS_PAIRED = re.compile(f"[{_PAIRED}]")
LETTERS = re.compile(f"{_LETTER}++")
JOINT = re.compile(f"{_JOINT}++")
_IS_EMOJI = re.compile(f"[{_EMOJI}]")
# Accents of Latin, Greek and Cyrillic letters, Hebrew points, Arabic vowel signs and the stroke that stretches words.
_DROPPED = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200b-\u200f\u00ad]+"
)
_SHORT = 500  # characters, of which even marks alone are sorted in a fifth of a millisecond
_LONG_RUN = re.compile(r"([^\w\s]{32})[^\w\s]++")


# What has no accent that Unicode would take off, and letters of Arabic that are written either way.
_OWN_FOLDS = {
    "ı": "i", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n", "ħ": "h", "ĸ": "k",
    "й": "й", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه",
}  # fmt: skip


# Where such letters and those with accents are.
_PERHAPS_FOLDED = re.compile(
    "[\u00c0-\u024f\u0307\u0386-\u0390\u03aa-\u03b0\u03ca-\u03d4\u0400-\u040f\u0439\u0450-\u045f\u0476-\u0477\u04c1-\u04ff"
    "\u0622-\u0629\u0649-\u064a\u06a9\u06c0-\u06d5\u1e00-\u1fff]"
)


@lru_cache(maxsize=2000)
def _without_accent(letter: str) -> str:
    return _OWN_FOLDS.get(letter) or _DROPPED.sub("", unicodedata.normalize("NFD", letter))


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Unicode's normal forms, in time that grows with the text.

    Python sorts the marks on one letter by insertion: 40,000 of them took 1.3 s, a million would take a quarter of an
    hour. No letter has more than a few, so of a longer run the beginning stands for all.
    """
    return unicodedata.normalize(form, text if len(text) < _SHORT else _LONG_RUN.sub(r"\1", text))


def folded(text: str) -> str:
    """As words are compared: neither case nor width nor accents matter."""
    if text.isascii():
        return text.lower()
    plain = normalized("NFKC", _DROPPED.sub("", text)).casefold()
    return _PERHAPS_FOLDED.sub(lambda found: _without_accent(found[0]), plain)


def tokens(text: str) -> list[str]:
    """The text folded and cut: words, identifiers of several words, runs of characters without spaces, emoji."""
    plain = folded(text)
    return (_ASCII_TOKEN if plain.isascii() else _TOKEN).findall(plain)


def parts(token: str) -> list[str]:
    """The words of a token; of characters without spaces each two neighbours, or the one that stands alone."""
    if is_paired(token):
        return list(map("".join, pairwise(token))) if token[1:] else [token]
    return [token] if token.isalnum() else JOINT.split(token)


def is_paired(token: str) -> bool:
    return not token[0].isascii() and _IS_PAIRED.match(token) is not None


def is_bare(term: str) -> bool:
    """Whether it is found anywhere in a text, whatever stands beside it: characters without spaces, emoji."""
    return is_paired(term) or _IS_EMOJI.match(term) is not None


def words_in(text: str) -> Iterator[str]:
    """The words of a text, one after the other, folded and with their endings."""
    for token in tokens(text):
        yield from parts(token)


def terms_of(texts: Iterable[str]) -> dict[str, None]:
    """The different terms of these texts, in their order: what a record is indexed by."""
    found: dict[str, None] = {}
    length = 0
    for text in texts:
        length += len(text)
        if len(text) <= _OFTEN_SAME:
            found |= _terms_of_short(text)
        else:
            _add_text(text, found)
    return found if length <= _CERTAINLY_LESS else _first_of(found)


_OFTEN_SAME = 24  # characters: authors and days are the same for many records


@lru_cache(maxsize=10_000)
def _terms_of_short(text: str) -> dict[str, None]:
    found: dict[str, None] = {}
    _add_text(text, found)
    return found


def forget_texts() -> None:
    """Whole texts were erased, perhaps."""
    _terms_of_short.cache_clear()


def _add_text(text: str, found: dict[str, None]) -> None:
    cut = tokens(text)
    if text.isascii() and "".join(cut).isalnum():  # plain words, as in most texts
        found |= dict.fromkeys(map(stem, cut))
        return
    for token in cut:
        if is_paired(token):
            found |= dict.fromkeys(token)
        _add(token, found)


def _first_of(found: dict[str, None]) -> dict[str, None]:
    sizes = accumulate(len(term.encode()) for term in found)
    return {term: None for term, size in zip(found, sizes, strict=True) if size <= MOST_BYTES}


def terms_asked(asked: Iterable[str]) -> dict[str, None]:
    """The different terms that any of these words are looked for by, in their order."""
    found: dict[str, None] = {}
    for word in asked:
        for token in tokens(word):
            _add(token, found)
    return found


def _add(token: str, found: dict[str, None]) -> None:
    if token.isalnum() and token.isascii():
        found[stem(token)] = None
        return
    terms = [stem(part) for part in parts(token)]
    found |= dict.fromkeys(terms)
    if len(terms) > 1 and not is_paired(token):
        found |= dict.fromkeys(map(joined, terms, terms[1:]))


def joined(one: str, other: str) -> str:
    """Two words of an identifier as one term."""
    return f"{one[:HALF]}-{other[:HALF]}"


# --- Endings ----------------------------------------------------------------------------------------------

_ENDINGS = ("ings", "ies", "ing", "ied", "ed", "es", "s")
# Forms that no ending explains. All other stems begin their words, but for the Arabic article: see `spellings`.
_ARABIC_THE = "ال"
_IRREGULAR = {"died": "die", "dying": "die", "lied": "lie", "lying": "lie", "tied": "tie", "tying": "tie"}


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without its commonest English endings, so that "camped" meets "camping" and "generous" "generously".

    With Porter's stemmer, which takes more off, the index found no more: on LoCoMo R@5 76.6 and R@10 83.4, with this
    one 76.5 and 83.6.
    """
    if len(word) > LONGEST:
        return word[:LONGEST]
    if not (word.isascii() and word.isalpha()):  # version 11 is not version 1
        return word[2:] if word.startswith(_ARABIC_THE) and len(word) > 4 else word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "eiy" else word


def spellings(term: str) -> tuple[str, ...]:
    """What a text is searched for to find all words of a term: each of them begins with one of these."""
    if term[0].isascii():
        return (term, *(form for form, of in _IRREGULAR.items() if of == term))
    return (term, _ARABIC_THE + term) if "\u0600" <= term[0] <= "\u06ff" else (term,)
