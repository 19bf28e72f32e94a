"""Words of questions and of names: split, brought to a stem, and related by a small general lexicon.

German is read by way of English: its phrases (german.txt) and nouns (synonyms.txt) become the English words that
everything after this file knows. Names of tables and fields keep both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

HAN = "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # written without spaces: each character is a word
_LETTER = rf"[^\W_{HAN}]"
_TOKEN = re.compile(
    rf"""(?P<quote>"[^"]+"|“[^”]+”|„[^“”"]+[“”"]|‘[^’]+’|「[^」]+」|``[^`']+''
        |(?<![\w])'(?=\S)[^']*?(?:'[a-z][^']*?)?(?<=\S)'(?![\w]))
    |(?P<date>\d{{4}}-\d{{1,2}}-\d{{1,2}}(?:[ T]\d{{2}}:\d{{2}}(?::\d{{2}})?)?)
    |(?P<number>[$€£¥]?\d+(?:[.,]\d+)*(?:(?:st|nd|rd|th)\b)?%?(?![-_]|{_LETTER}))
    |(?P<han>[{HAN}])
    |(?P<word>{_LETTER}+(?:[’'&.@/_-]{_LETTER}+)*)
    |(?P<mark>[,;?!.()/，；？！。（）、])""",
    re.VERBOSE,
)
_CAMEL = re.compile(rf"[A-ZÄÖÜ]+(?=[A-ZÄÖÜ][a-zäöüß])|[A-ZÄÖÜ]?[a-zäöüß]+|[A-ZÄÖÜ]+|\d+|[{HAN}]|[^\W\d{HAN}]+")
_HAN = re.compile(f"[{HAN}]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e", "è": "e", "á": "a", "ñ": "n", "ç": "c"})
STOPWORDS = frozenset(
    """a an the of in on at to for from by with and or is are was were be been do does did has have had that which who
    whose whom
    what where when how many much all any some each every their its his her our my your it they them there this these
    those
    as than then also me give show list find return tell get display please can could would will if about into per not
    no
    s t both either between most least more less top number total average count""".split()
)
NUMBERS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100, "thousand": 1000, "once": 1, "twice": 2, "single": 1}
_IRREGULAR = {
    "people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse", "feet": "foot",
    "teeth": "tooth",
    "staffs": "staff", "bought": "buy", "sold": "sell", "made": "make", "won": "win", "held": "hold", "taught": "teach",
    "took": "take", "taken": "take", "wrote": "write", "written": "write", "paid": "pay", "left": "leave",
    "lost": "lose",
    "built": "build", "born": "bear", "flew": "fly", "flown": "fly", "sang": "sing", "sung": "sing", "data": "data",
    "series": "series", "species": "species", "status": "status", "address": "address", "class": "class", "bus": "bus",
    "business": "business", "campus": "campus", "analyses": "analysis", "criteria": "criterion", "news": "news",
    "gas": "gas",
    "lives": "live", "names": "name", "named": "name", "movies": "movie", "cookies": "cookie", "has": "have",
    "does": "do",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A piece of the question. `word` is the English, lower-case form; `text` what stands in the question."""

    text: str
    word: str
    stem: str
    start: int
    end: int
    kind: str = "word"  # word, number, quote, date, mark

    @property
    def is_capitalized(self) -> bool:
        return self.text[:1].isupper()


def plain(text: str) -> str:
    return text.lower().translate(_UMLAUTS)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light stem: plural, -ing, -ed and the like. Not a linguist's, but the same for names and questions."""
    word = plain(word)
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("sses", "shes", "ches", "xes", "zes"):
        if word.endswith(ending):
            return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ing") and len(word) > 5:
        return _undoubled(word[:-3])
    if word.endswith("ed") and len(word) > 4:
        return word[:-1] if word.endswith("eed") else _undoubled(word[:-2])
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _undoubled(word: str) -> str:
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word


@dataclass(frozen=True)
class Lexicon:
    synonyms: dict[str, frozenset[str]]  # stem -> stems (phrases joined by a space)
    german: dict[str, str]  # plain German noun or phrase -> English
    phrases: dict[tuple[str, ...], tuple[str, ...]]
    abbreviations: dict[str, tuple[str, ...]]
    chinese: dict[tuple[str, ...], tuple[str, ...]]  # as phrases, character by character


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    related: dict[str, set[str]] = defaultdict(set)
    german: dict[str, str] = {}
    for line in _lines("synonyms.txt"):
        english, _, foreign = line.partition("|")
        words = [each.replace("_", " ") for each in english.split()]
        stems = [" ".join(stem(part) for part in word.split()) for word in words]
        for other in stems[1:]:
            related[stems[0]].add(other)
            related[other].add(stems[0])
        for word in foreign.split():
            german.setdefault(plain(word.replace("_", " ")), words[0])
    phrases: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in _lines("german.txt"):
        left, _, right = line.partition("=")
        phrases[tuple(plain(left).split())] = tuple(right.split())
    short = {line.split()[0]: tuple(line.split()[1:]) for line in _lines("abbreviations.txt")}
    pairs = (line.partition("=") for line in _lines("chinese.txt"))
    chinese = {tuple(left.strip()): tuple(right.split()) for left, _, right in pairs}
    return Lexicon({word: frozenset(others) for word, others in related.items()}, german, phrases, short, chinese)


def _lines(name: str) -> list[str]:
    text = resources.files("recollect.services.data.asking.language").joinpath(name).read_text(encoding="utf8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def tokens(question: str) -> list[Token]:
    """The tokens of a question, German ones read as English."""
    found: list[Token] = []
    for match in _TOKEN.finditer(question):
        kind, text = str(match.lastgroup), match.group()
        if kind == "word":
            found.extend(_word_tokens(text, match.start()))
            continue
        if kind == "han":
            found.append(_token(text, match.start()))
            continue
        inner = text.strip("\"'“”„‘’`「」") if kind == "quote" else text
        found.append(Token(inner, inner.lower(), inner.lower(), match.start(), match.end(), kind))
    if is_german(found):
        return _in_english(found, lexicon().phrases)
    return _in_english(found, lexicon().chinese) if _HAN.search(question) else found


def _word_tokens(text: str, start: int) -> list[Token]:
    text_only = re.sub(r"['’](s|S)?$", "", text)
    if "/" in text_only and not any(part.isdigit() for part in text_only.split("/")):
        parts, at = [], start
        for part in text_only.split("/"):
            parts.append(_token(part, at))
            at += len(part) + 1
        return parts
    return [_token(text_only, start)]


def _token(text: str, start: int, english: str | None = None, end: int | None = None) -> Token:
    word = plain(english if english is not None else text)
    word = re.sub(r"['’]s$", "", word)
    return Token(text, word, stem(word), start, start + len(text) if end is None else end)


_GERMAN_MARKS = frozenset(
    """wie viele der die das und ist sind welche welcher welches für mit von dem den des nach zeige liste nenne gib
    finde ein eine
    einer alle pro jede jeder jedes nicht oder wer wo wann haben hat gibt über unter im durchschnittliche anzahl
    aus""".split()
)
_ENGLISH_MARKS = frozenset("the of what which are is how show list find and with for each give return who that".split())


def is_german(found: Sequence[Token]) -> bool:
    words = [token.text.lower() for token in found if token.kind == "word"]
    german = sum(word in _GERMAN_MARKS or any(c in word for c in "äöüß") for word in words)
    english = sum(word in _ENGLISH_MARKS for word in words)
    return german > english and german >= 1 and german * 8 >= len(words)


_RELATIVE = frozenset("der die das dem den denen".split())


def _in_english(found: list[Token], phrases: Mapping[tuple[str, ...], tuple[str, ...]]) -> list[Token]:
    at = 0
    result: list[Token] = []
    found = [part for token in found for part in _unhyphenated(token)]
    while at < len(found):
        meant = _by_place(found, at)
        if meant is not None:
            token = found[at]
            result.extend(Token(token.text, word, stem(word), token.start, token.end) for word in meant)
            at += 1
            continue
        for length in (4, 3, 2, 1):
            span = found[at : at + length]
            key = tuple(plain(token.text) for token in span)
            if len(span) == length and key in phrases and all(token.kind == "word" for token in span):
                for number, word in enumerate(phrases[key]):
                    text = span[min(number, length - 1)].text
                    result.append(Token(text, word, stem(word), span[0].start, span[-1].end))
                at += length
                break
        else:
            token = found[at]
            words = german_words(token.text) if token.kind == "word" else None
            if words:
                result.extend(Token(token.text, w, stem(w), token.start, token.end) for w in words)
            else:
                result.append(token)
            at += 1
    return result


def _unhyphenated(token: Token) -> list[Token]:
    """Kunden-ID in two words."""
    if token.kind != "word" or "-" not in token.text:
        return [token]
    parts, at = [], token.start
    for part in token.text.split("-"):
        parts.append(_token(part, at))
        at += len(part) + 1
    return parts


def _by_place(found: Sequence[Token], at: int) -> tuple[str, ...] | None:
    """Words whose English depends on their neighbours: genitives, relative clauses, "nach"."""
    word = plain(found[at].text)
    before = found[at - 1] if at else None
    after = found[at + 1] if at + 1 < len(found) else None
    if word in _RELATIVE and before is not None and before.kind == "mark":
        return ("that",)
    if word in ("der", "des") and before is not None and before.kind == "word" and before.is_capitalized and at > 1:
        return ("of", "the")
    if word == "nach" and after is not None and (after.kind in ("number", "date") or after.text.lower() in _MONTHS):
        return ("after",)
    return None


_MONTHS = frozenset("januar februar märz april mai juni juli august september oktober november dezember".split())


@lru_cache(maxsize=20_000)
def german_words(text: str) -> tuple[str, ...] | None:
    """The English of a German noun, of its inflected forms, or of the parts of a compound; None where unknown."""
    whole = _german_noun(plain(text))
    if whole:
        return tuple(plain(whole).split())
    word = plain(text)
    for cut in range(len(word) - 3, 2, -1):
        head, tail = word[:cut], word[cut:]
        second = _german_noun(tail)
        if not second:
            continue
        first = next((f for joint in ("", "s", "n", "en", "e", "er") if (f := _german_noun(_cut(head, joint)))), None)
        if not first and head.endswith("en"):
            first = _german_noun(head[:-2] + "a") or _german_noun(head[:-2] + "um")
        if first:
            return (*plain(first).split(), *plain(second).split())
    for cut in range(len(word) - 4, 3, -1):
        second = _german_noun(word[cut:])
        if second and second in _PLAIN_TAILS:
            return (_cut(word[:cut], "s") or word[:cut], *plain(second).split())
    return None


_PLAIN_TAILS = frozenset("name number date code type price year id amount value".split())


def _cut(word: str, ending: str) -> str:
    return word[: -len(ending)] if ending and word.endswith(ending) else word if not ending else ""


def _german_noun(word: str) -> str | None:
    if len(word) < 3:
        return None
    known = lexicon().german
    for ending in ("", "n", "en", "e", "er", "s", "es", "ern", "innen", "in"):
        found = known.get(_cut(word, ending))
        if found:
            return found
    umlauted = re.sub(r"(ae|oe|ue)", lambda m: m.group()[0], word)
    if umlauted != word:
        for ending in ("", "e", "er", "en", "ern", "n"):
            found = known.get(_cut(umlauted, ending))
            if found:
                return found
    return None


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a column's or table's name: split at case and underscores, abbreviations written out."""
    pieces = [piece for part in re.split(r"[\W_]+", name) for piece in _split(part)]
    short = lexicon().abbreviations
    words: list[str] = []
    for piece in pieces:
        for part in short.get(piece, _grown_together(piece)):
            words.extend(short.get(part, (part,)))
    return tuple(words)


_ENDINGS = re.compile(
    r"^(.{3,})(number|name|code|date|type|count|price|time|address|status)$|^(.{1,3})(id|no|num|nr)$|^(.{3,})(id)$"
)
_WHOLE = frozenset(
    """candidate update mandate surname nickname paid said valid grid bid kid mid void rapid solid fluid hybrid aid
    acid android
    invalid avoid asteroid overtime sometime lifetime postcode prototype discount account piano casino volcano
    typhoid""".split()
)


def _grown_together(piece: str) -> tuple[str, ...]:
    """A solid name like `birthdate`, `flno` or `customerid` in its two words."""
    match = _ENDINGS.match(piece) if piece not in _WHOLE and not piece.isdigit() else None
    if match is None:
        return (piece,)
    head, tail = (each for each in match.groups() if each is not None)
    return (head, tail)


def _split(part: str) -> list[str]:
    if not part:
        return []
    if part.isupper() or part.islower():
        return [plain(each) for each in re.findall(r"[^\W\d]+|\d+", part)]
    return [plain(each) for each in _CAMEL.findall(part)]


def related(one: str, other: str) -> float:
    """How alike two stems are by spelling and lexicon: 1 the same, 0 nothing known."""
    if one == other:
        return 1.0
    if other in lexicon().synonyms.get(one, ()):
        return 0.85
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) >= 4 and longer.startswith(shorter) and len(longer) - len(shorter) <= 3:
        return 0.9
    if len(shorter) >= 5 and longer.startswith(shorter[: max(5, len(longer) - 3)]):
        return 0.8
    if len(shorter) >= 5 and len(longer) - len(shorter) <= 1 and edit_distance_is_one(shorter, longer):
        return 0.85
    if 3 <= len(shorter) <= 4 and longer.startswith(shorter) and len(longer) >= 6:
        return 0.55
    return 0.0


def edit_distance_is_one(shorter: str, longer: str) -> bool:
    """One letter more, other, or two neighbours swapped."""
    if len(longer) - len(shorter) > 1:
        return False
    at = next((i for i in range(len(shorter)) if shorter[i] != longer[i]), len(shorter))
    if len(shorter) == len(longer):
        swapped = shorter[at + 1 : at + 2] + shorter[at : at + 1] == longer[at : at + 2]
        return shorter[at + 1 :] == longer[at + 1 :] or (swapped and shorter[at + 2 :] == longer[at + 2 :])
    return shorter[at:] == longer[at + 1 :]
