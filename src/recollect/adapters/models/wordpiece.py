"""BERT's uncased WordPiece: text in, vocabulary numbers out.

Promise: the same numbers as the reference tokenizer of the `tokenizers` package, truncation included, with two
intended differences: the words `[CLS]`, `[SEP]`, `[MASK]` inside a text are ordinary text, so that a stored
memory cannot forge the marks of the model, and only the first 65,536 characters are read, so that a pasted blob
costs milliseconds. A third is not intended: some 560 characters added or moved after Unicode 8, none in the
vocabulary, follow the interpreter's tables, the reference follows older ones.
Shape: split at white space, clean each chunk, cut it at punctuation and ideographs, look the pieces up longest
first. Chunks are handled one at a time, so a book costs no more than its first 254 tokens.
Proof: `tests/adapters/models/test_wordpiece.py` holds recorded answers of the reference.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

VOCABULARY_FILE = "bert_uncased_vocabulary.txt"
UNKNOWN, CLS, SEP = 100, 101, 102
LONGEST_WORD = 100
LONGEST_TEXT = 65_536

# str.split() would not do: it also cuts at \v, \f, \x85 and \x1c-\x1f, which BERT deletes as control characters.
_CHUNK = re.compile("[^ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_INVISIBLE = frozenset(("Cc", "Cf", "Co", "Cs"))
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """A tokenizer over one vocabulary; safe to share between threads."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.vocabulary = tuple(vocabulary)  # in the order of their numbers
        self._whole = vocabulary  # a word has no "#" in it: those that begin with "##" are never met here
        self._continued = {token[2:]: number for token, number in vocabulary.items() if token[:2] == "##"}
        # Few chunks make up most of a text; the bound keeps the cache near 3 MB.
        self._cached_chunk = lru_cache(maxsize=16_384)(self._chunk)

    def encode(self, text: str, limit: int) -> list[int]:
        """`[CLS]`, at most `limit - 2` pieces, `[SEP]`."""
        numbers = [CLS]
        for found in _CHUNK.finditer(text[:LONGEST_TEXT]):
            chunk = found[0]
            numbers += self._cached_chunk(chunk) if len(chunk) <= LONGEST_WORD else self._chunk(chunk)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], SEP]

    def forget_words(self) -> None:
        self._cached_chunk.cache_clear()

    def _chunk(self, chunk: str) -> tuple[int, ...]:
        return tuple(number for word in _words(chunk) for number in self._pieces(word))

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that fits, again and again; one gap makes the whole word unknown."""
        if len(word) > LONGEST_WORD:
            return [UNKNOWN]
        numbers: list[int] = []
        start, table = 0, self._whole
        while start < len(word):
            end = len(word)
            while end > start and word[start:end] not in table:
                end -= 1
            if end == start:
                return [UNKNOWN]
            numbers.append(table[word[start:end]])
            start, table = end, self._continued
        return numbers


@lru_cache(maxsize=1)
def bert_uncased() -> WordPiece:
    """The tokenizer of BERT uncased and of every model trained with it, all-MiniLM-L6-v2 among them."""
    lines = Path(__file__).with_name(VOCABULARY_FILE).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return WordPiece(dict(zip(lines, range(len(lines)), strict=True)))


def forget_words() -> None:
    """The words that were met, of every text; of the vocabulary nothing is forgotten."""
    if bert_uncased.cache_info().currsize:
        bert_uncased().forget_words()


def _words(chunk: str) -> Iterator[str]:
    """The chunk in lower case without accents, cut around every punctuation mark and ideograph."""
    word = ""
    for character in chunk if chunk.isascii() and chunk.isprintable() else _cleaned(chunk):
        if not _stands_alone(character):
            # Character by character: str.lower() looks around and makes a final sigma, which BERT does not.
            word += character.lower()
            continue
        if word:
            yield word
        yield character
        word = ""
    if word:
        yield word


def _cleaned(chunk: str) -> str:
    """Without control characters and accents, decomposed."""
    category = unicodedata.category
    visible = (c for c in chunk if c != "\ufffd" and category(c) not in _INVISIBLE and category(c) != "Mn")
    # Letter by letter: Python sorts all marks of one letter by insertion, and 40,000 of them took a second.
    return "".join(c for letter in visible for c in unicodedata.normalize("NFD", letter) if category(c) != "Mn")


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return character in _ASCII_PUNCTUATION
    number = ord(character)
    return unicodedata.category(character).startswith("P") or any(a <= number <= b for a, b in _IDEOGRAPHS)
