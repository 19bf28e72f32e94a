"""The tokenizer against recorded answers of the reference, `tokenizers` 0.23.3 with all-MiniLM-L6-v2's own file.

The full comparison (34,079 LoCoMo texts, 80,000 generated ones, every code point) agreed but for about 560
characters that Unicode added after version 8, which the reference does not know yet.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.adapters.models.wordpiece import CLS, SEP, VOCABULARY_FILE, bert_uncased

RECORDED: dict[str, tuple[str, list[int]]] = {
    "plain words": ("The cat sat on the mat.", [1996, 4937, 2938, 2006, 1996, 13523, 1012]),
    "nothing": ("", []),
    "only spaces": (" \t\n\xa0\u3000 ", []),
    "pieces": ("unaffable embeddings", [14477, 20961, 3468, 7861, 8270, 4667, 2015]),
    "punctuation": (
        "don't stop-now... (really?!)",
        [2123, 1005, 1056, 2644, 1011, 2085, 1012, 1012, 1012, 1006, 2428, 1029, 999, 1007],
    ),
    "every ASCII mark": (
        "a!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~b",
        [
            1037,
            999,
            1000,
            1001,
            1002,
            1003,
            1004,
            1005,
            1006,
            1007,
            1008,
            1009,
            1010,
            1011,
            1012,
            1013,
            1024,
            1025,
            1026,
            1027,
            1028,
            1029,
            1030,
            1031,
            1032,
            1033,
            1034,
            1035,
            1036,
            1063,
            1064,
            1065,
            1066,
            1038,
        ],
    ),
    "accents": ("Cr\xe8me Br\xfbl\xe9e na\xefve \xc5NGSTR\xd6M", [13675, 21382, 7987, 9307, 2063, 15743, 17076, 15687]),
    "accents apart": ("Cafe\u0301", [7668]),
    "Turkish": ("\u0130stanbul \u0131s\u0131", [9960, 1104, 2015, 11722]),
    "sharp s": ("Stra\xdfe \u1e9e", [2358, 27807, 1096]),
    "final sigma": ("\u039f\u0394\u039f\u03a3", [1169, 29722, 29730, 29733]),
    "ideographs": ("\u6771\u4eac\u306f\u65e5\u672c", [1879, 1755, 1672, 1864, 1876]),
    "compatibility ideograph": ("\uf900x\U0002f800", [100, 1060, 100]),
    "Hangul": ("\ud55c\uad6d\uc5b4", [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008]),
    "Arabic": (
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
        [1295, 17149, 29820, 29816, 25573, 1271, 25573, 23673, 29830, 25573, 23673, 22192],
    ),
    "Devanagari": ("\u0928\u092e\u0938\u094d\u0924\u0947", [1327, 29867, 29874, 29859]),
    "emoji": ("fine \U0001f389\U0001f469\u200d\U0001f4bb ok", [2986, 100, 7929]),
    "controls vanish": ("ab\x00c\x0bd\x0ce\x85f\u200bg\ufffdh\xad", [5925, 3207, 2546, 5603]),
    "separators split": ("a\u2028b\u2029c\u2003d", [1037, 1038, 1039, 1040]),
    "private use": ("a\ue000b", [11113]),
    "typographic marks": (
        "\u201cquoted\u201d \u2013 dash\u2026 \xa75 \u20ac9",
        [1523, 9339, 1524, 1516, 11454, 1529, 1073, 1019, 1574, 2683],
    ),
    "marks of the model": (
        "[CLS] [SEP] [MASK] [UNK]",
        [1031, 18856, 2015, 1033, 1031, 19802, 1033, 1031, 7308, 1033, 1031, 4895, 2243, 1033],
    ),
    "100 characters": ("a" * 100, [13360, *[11057] * 48, 2050]),
    "101 characters": ("a" * 101, [100]),
    "long with a mark": ("a" * 101 + ".b", [100, 1012, 1038]),
    "unknown word": ("xyz\U0001f600q", [100]),
    "numbers": (
        "2023-05-07 10:45pm 3.14159",
        [16798, 2509, 1011, 5709, 1011, 5718, 2184, 1024, 3429, 9737, 1017, 1012, 15471, 28154],
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_text_gives_the_numbers_of_the_reference(name: str) -> None:
    text, numbers = RECORDED[name]
    assert bert_uncased().encode(text, 256) == [CLS, *numbers, SEP]


def test_the_vocabulary_is_the_one_its_notice_names() -> None:
    folder = files("recollect.adapters.models")
    content = folder.joinpath(VOCABULARY_FILE).read_bytes()
    notice = folder.joinpath("bert_uncased_vocabulary.NOTICE").read_text(encoding="utf-8")
    assert hashlib.sha256(content).hexdigest() in notice


def test_a_long_text_is_cut_before_the_closing_mark() -> None:
    tokenizer = bert_uncased()
    whole = tokenizer.encode("one two three unaffable", 256)
    assert tokenizer.encode("one two three unaffable", 6) == [*whole[:5], SEP]
    assert len(tokenizer.encode("word " * 1000, 256)) == 256


def test_a_text_that_just_fits_is_not_cut() -> None:
    assert bert_uncased().encode("the cat sat", 5) == [CLS, 1996, 4937, 2938, SEP]


def test_lone_surrogates_vanish() -> None:
    tokenizer = bert_uncased()
    assert tokenizer.encode("c\ud800at", 256) == tokenizer.encode("cat", 256)


def test_a_blob_is_read_to_its_first_65536_characters() -> None:
    tokenizer = bert_uncased()
    start = "." + "a" * 65_535
    assert tokenizer.encode(start + ".b.c.d", 256) == tokenizer.encode(start, 256)
    assert tokenizer.encode(start[:-2] + ".b.c.d", 256) != tokenizer.encode(start, 256)


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_numbers_of_the_vocabulary(text: str) -> None:
    numbers = bert_uncased().encode(text, 64)
    assert len(numbers) <= 64
    assert (numbers[0], numbers[-1]) == (CLS, SEP)
    assert all(0 < number < 30_522 for number in numbers)


@settings(deadline=None)
@given(st.text(), st.text())
def test_white_space_separates(left: str, right: str) -> None:
    encode = bert_uncased().encode
    assert encode(f"{left} {right}", 9_999) == [*encode(left, 9_999)[:-1], *encode(right, 9_999)[1:]]
