"""Which values of the data a question names: by spelling, inflection, part, typo, and a few general equivalences.

`ValueIndex` is made once per source from the distinct values of its text fields. `find` returns the hits of one
question, best first within each place of the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from recollect.services.data.asking.language.words import HAN, STOPWORDS, Token, edit_distance_is_one, plain, stem
from recollect.services.data.asking.plans.schema import Schema

_WORD = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_LONGEST = 9  # words of a value that are looked for in a question
_MOST_PER_WORD = 400  # values that share a word; more say nothing
_CODES = {
    "female": ("f", "female", "woman", "w"), "woman": ("f", "female", "w"), "girl": ("f", "female"),
    "male": ("m", "male"),
    "man": ("m", "male"), "boy": ("m", "male"), "yes": ("y", "yes", "t", "true", "1"),
    "no": ("n", "no", "f", "false", "0"),
    "true": ("t", "true", "1", "yes", "y"), "false": ("f", "false", "0", "no", "n"), "weiblich": ("f", "w", "female"),
    "maennlich": ("m", "male"), "monday": ("mon", "m"),
    "usa": ("united states", "us", "usa", "united states of america"),
    "uk": ("united kingdom", "great britain", "uk", "england"), "paid": ("paid",),
}  # fmt: skip
_DEMONYMS = {
    "american": "usa", "british": "uk", "english": "england", "french": "france", "german": "germany",
    "italian": "italy",
    "spanish": "spain", "portuguese": "portugal", "dutch": "netherlands", "belgian": "belgium", "swiss": "switzerland",
    "austrian": "austria", "polish": "poland", "czech": "czech republic", "hungarian": "hungary", "russian": "russia",
    "ukrainian": "ukraine", "swedish": "sweden", "norwegian": "norway", "danish": "denmark", "finnish": "finland",
    "irish": "ireland", "scottish": "scotland", "welsh": "wales", "greek": "greece", "turkish": "turkey",
    "chinese": "china",
    "japanese": "japan", "korean": "south korea", "indian": "india", "australian": "australia", "canadian": "canada",
    "mexican": "mexico", "brazilian": "brazil", "argentinian": "argentina", "chilean": "chile", "egyptian": "egypt",
    "israeli": "israel", "thai": "thailand", "vietnamese": "vietnam", "european": "europe", "asian": "asia",
    "african": "africa",
    "deutschland": "germany", "frankreich": "france", "italien": "italy", "spanien": "spain", "oesterreich": "austria",
    "schweiz": "switzerland", "niederlande": "netherlands", "grossbritannien": "uk", "amerika": "usa",
    "kanada": "canada",
    "brasilien": "brazil", "japan": "japan", "polen": "poland", "russland": "russia", "china": "china",
    "indien": "india",
    "deutsch": "germany", "franzoesisch": "france", "europa": "europe", "asien": "asia", "afrika": "africa",
    "rom": "rome",
    "wien": "vienna", "muenchen": "munich", "koeln": "cologne", "mailand": "milan", "prag": "prague",
    "kopenhagen": "copenhagen",
}  # fmt: skip


@dataclass(frozen=True)
class ValueHit:
    """A value of a field that stands at tokens `start` to `end` of the question. `score` 1 is letter for letter."""

    field: int
    value: str
    start: int
    end: int
    score: float
    is_quoted: bool = False
    is_flag: bool = False  # the field itself was named: "approved" for approved = yes


@lru_cache(maxsize=100_000)
def _key(text: str) -> str:
    return " ".join(_WORD.findall(plain(text)))


@lru_cache(maxsize=100_000)
def _stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _WORD.findall(plain(text)))


class ValueIndex:
    def __init__(self, schema: Schema, values: Mapping[int, Sequence[str]]) -> None:
        self.schema = schema
        self.values = values
        self._whole: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._stemmed: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._by_word: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._initials: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for field, texts in values.items():
            for text in texts:
                if len(text) > 200:
                    continue
                self._add(field, text)
        self._lengths: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._by_prefix: dict[str, list[str]] = defaultdict(list)
        for word in self._by_word:
            if len(word) >= 4 and word.isalpha():
                self._by_prefix[word[:4]].append(word)
            if len(word) >= 5 and word.isalpha():
                self._lengths[word[0], len(word)].append(word)

    def _add(self, field: int, text: str) -> None:
        key, stems = _key(text), _stems(text)
        if not key:
            return
        self._whole[key].append((field, text))
        self._stemmed[" ".join(stems)].append((field, text))
        if 2 <= len(stems) <= 4 and text[:1].isupper():
            self._initials["".join(word[0] for word in _WORD.findall(plain(text)))].append((field, text))
        for each in set(stems):
            if len(self._by_word[each]) < _MOST_PER_WORD:
                self._by_word[each].append((field, text))

    def find(self, tokens: Sequence[Token]) -> list[ValueHit]:
        best: dict[tuple[int, str, int, int], ValueHit] = {}
        for hit in (*self._spans(tokens), *self._equivalents(tokens), *self._parts(tokens), *self._typos(tokens)):
            place = (hit.field, hit.value, hit.start, hit.end)
            if place not in best or best[place].score < hit.score:
                best[place] = hit
        return _settled(list(best.values()))

    def _spans(self, tokens: Sequence[Token]) -> Iterable[ValueHit]:
        """Runs of words that are a whole value, exactly or but for inflection."""
        for start, token in enumerate(tokens):
            if token.kind == "quote":
                yield from self._quoted(token, start)
                continue
            for end in range(start + 1, min(len(tokens), start + _LONGEST) + 1):
                span = tokens[start:end]
                if any(each.kind == "quote" for each in span):
                    break
                if span[-1].kind == "mark":
                    continue
                text = " ".join(each.text for each in span)
                if len(span) == 1 and token.word in STOPWORDS and not (token.text.isupper() and start > 0):
                    continue
                key = _key(text)
                for field, value in self._whole.get(key, ()):
                    yield ValueHit(field, value, start, end, 1.0 if value == text else 0.95)
                for field, value in self._stemmed.get(" ".join(_stems(text)), ()):
                    yield ValueHit(field, value, start, end, 0.88)
                english = " ".join(each.stem for each in span)
                for field, value in self._stemmed.get(english, ()):
                    yield ValueHit(field, value, start, end, 0.86)

    def _quoted(self, token: Token, at: int) -> Iterable[ValueHit]:
        key, stems = _key(token.text), _stems(token.text)
        for field, value in self._whole.get(key, ()):
            yield ValueHit(field, value, at, at + 1, 1.0 if value == token.text else 0.97, True)
        for field, value in self._stemmed.get(" ".join(stems), ()):
            yield ValueHit(field, value, at, at + 1, 0.93, True)
        common: dict[tuple[int, str], int] = defaultdict(int)
        for each in set(stems):
            for place in self._by_word.get(each, ()):
                common[place] += 1
        for (field, value), count in common.items():
            other = len(set(_stems(value)))
            share = count / max(other, len(set(stems)))
            if share >= 0.5:
                yield ValueHit(field, value, at, at + 1, 0.4 + 0.4 * share, True)

    def _equivalents(self, tokens: Sequence[Token]) -> Iterable[ValueHit]:
        """Codes of few letters, and countries named by their people."""
        for at, token in enumerate(tokens):
            if token.kind != "word":
                continue
            forms = {token.word, token.stem, plain(token.text)}
            names = {_DEMONYMS[form] for form in forms if form in _DEMONYMS}
            for form in forms | names:
                for code in _CODES.get(form, ()):
                    for field, value in self._whole.get(code, ()):
                        if len(code) > 2 or self.schema.fields[field].distinct <= 6:
                            yield ValueHit(field, value, at, at + 1, 0.85)
            if token.text in ("US", "U.S", "U.S.A"):
                names.add("usa")
            if token.text.isupper() and 2 <= len(token.text) <= 4:
                for field, value in self._initials.get(plain(token.text), ())[:5]:
                    yield ValueHit(field, value, at, at + 1, 0.8)
            for name in names:
                for field, value in self._whole.get(name, ()):
                    yield ValueHit(field, value, at, at + 1, 0.85)

    def _parts(self, tokens: Sequence[Token]) -> Iterable[ValueHit]:
        """Values of several words of which most stand together in the question."""
        places: dict[tuple[int, str], list[int]] = defaultdict(list)
        for at, token in enumerate(tokens):
            if token.kind == "word" and token.word not in STOPWORDS:
                for place in self._by_word.get(token.stem, ()):
                    places[place].append(at)
        for (field, value), found in places.items():
            stems = _stems(value)
            if len(stems) < 2 or len(stems) > 8:
                continue
            start, end = found[0], found[-1] + 1
            if end - start > len(stems) + 2:
                continue
            share = len({tokens[at].stem for at in found}) / len(set(stems))
            capital = all(tokens[at].is_capitalized for at in found)
            if share >= 0.6 or (share >= 0.34 and capital and found[0] > 0):
                yield ValueHit(field, value, start, end, 0.3 + 0.45 * share + (0.05 if capital else 0.0))

    def _typos(self, tokens: Sequence[Token]) -> Iterable[ValueHit]:
        for at, token in enumerate(tokens):
            word = token.stem
            if token.kind != "word" or len(word) < 5 or word in self._by_word or token.word in STOPWORDS:
                continue
            for other in self._by_prefix.get(word[:4], ()):
                shorter, longer = sorted((word, other), key=len)
                if longer.startswith(shorter) and len(longer) - len(shorter) <= 5:
                    for field, value in self._by_word[other]:
                        if len(_stems(value)) == 1:
                            yield ValueHit(field, value, at, at + 1, 0.58)
            near = (w for length in (len(word) - 1, len(word), len(word) + 1) for w in self._lengths[word[0], length])
            for other in near:
                shorter, longer = sorted((word, other), key=len)
                if edit_distance_is_one(shorter, longer):
                    for field, value in self._by_word[other]:
                        if len(_stems(value)) == 1:
                            yield ValueHit(field, value, at, at + 1, 0.6 + 0.1 * token.is_capitalized)


def _settled(hits: list[ValueHit]) -> list[ValueHit]:
    """Without hits that lie inside a longer or surer one."""
    hits.sort(key=lambda hit: (-(hit.end - hit.start) * (hit.score >= 0.8), -hit.score, hit.field, hit.value))
    kept: list[ValueHit] = []
    for hit in hits:
        inside = any(_covers(other, hit) for other in kept)
        if not inside:
            kept.append(hit)
    return kept[:60]


def _covers(other: ValueHit, hit: ValueHit) -> bool:
    if not (other.start <= hit.start and hit.end <= other.end):
        return False
    is_longer = other.end - other.start > hit.end - hit.start
    return (is_longer and other.score >= 0.85) or other.score >= hit.score + 0.25
