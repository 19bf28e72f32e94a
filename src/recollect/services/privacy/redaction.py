"""Finding a person in records, and putting a pseudonym in the place of their names and ids.

A name is found as a whole word, in the spelling that is known; where a script has no spaces between words, anywhere. An
id is found as a whole word, too. One that could as well be a word, such as `notes`, counts only where ids stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal, get_args, get_origin

from recollect.domain.provenance import Citation, read_citation
from recollect.domain.record import RECORDS, Record

SHORTEST_NAME = 3  # in running text; two characters of a script without spaces are a whole name
SHORTEST_ID = 8
_TOKEN = re.compile(f"[0-9A-Za-z_@.\\-]{{{SHORTEST_ID},}}")  # what may be an id in running text
_JOINED = "0-9A-Za-z\u00c0-\u0dff_@\\-"  # what a word is made of in scripts that put spaces between words
_AUDIT = frozenset({"organization_id", "id", "created_by", "updated_by", "content_hash", "identity", "salt"})
# Columns with words of ours.
_VOCABULARY = frozenset(
    "kind type level action model media_type format engine queue namespaces timezone moment scopes".split()
)
_OUR_WORDS = frozenset("user users assistant system tool agent admin owner member reader writer operator".split())
_ID_NAMES = frozenset(
    "id ids user agent session project memory run workspace application because_of to into others".split()
)
# What a name in it cannot be replaced in: addresses lead somewhere, keys and hashes are what they are.
_UNCHANGED = frozenset(
    {
        ("connection", "address"), ("connection", "secret_name"), ("workspace_file", "path"),
        ("checkpoint_line", "thread"), ("item", "path"), ("item", "key"), ("item", "namespace"), ("citation", "source"),
    }
)  # fmt: skip


# Another person is called what they are called.
_OF_OTHERS = frozenset({("user", "name"), ("user", "email"), ("user", "password_hash"), ("api_key", "key_hash")})


def _as_word(name: str) -> str:
    before = f"(?<![{_JOINED}])" if _is_spaced(name[0]) else ""
    after = f"(?![{_JOINED}])" if _is_spaced(name[-1]) else ""
    return f"{before}{re.escape(name)}{after}"


def _is_spaced(character: str) -> bool:
    return character.isalnum() and ord(character) < 0x0E00


def _is_telling(name: str) -> bool:
    """Whether a name can be looked for in running text."""
    is_long_enough = len(name) >= (SHORTEST_NAME if all(map(_is_spaced, name)) else 2)
    return is_long_enough and name.lower() not in _OUR_WORDS and name not in RECORDS


def _is_sure(id: str) -> bool:
    """Whether an id is one wherever it stands."""
    return len(id) >= SHORTEST_ID and any(map(str.isdigit, id))


def _is_id_name(name: str) -> bool:
    return name in _ID_NAMES or name.endswith(("_id", "_ids", "_by"))


@dataclass(frozen=True)
class Redaction:
    """Names and ids that are looked for, and what takes their place."""

    names: tuple[str, ...]
    pseudonym: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Ids that are looked for as whole values, each with its own pseudonym."""

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        telling = sorted(self._telling, key=lambda name: (-len(name), name))
        return re.compile("|".join(map(_as_word, telling))) if telling else None

    @cached_property
    def _telling(self) -> frozenset[str]:
        return frozenset(name for name in self.names if _is_telling(name))

    @cached_property
    def _bytes(self) -> tuple[bytes, ...]:
        return tuple(name.encode() for name in self.names if len(name.encode()) > SHORTEST_NAME and _is_telling(name))

    def _is_id(self, value: str, within: str) -> bool:
        return value in self.ids and (_is_id_name(within) or _is_sure(value))

    def _for_token(self, found: re.Match[str]) -> str:
        token = found[0].rstrip(".-")
        return self.ids[token] + found[0][len(token) :] if token in self._sure_ids else found[0]

    def _is_in(self, text: str) -> bool:
        """Whether a text has one of them: asked of every text of an organization, nearly none of which has, so what
        cannot be there is not looked for word by word."""
        if self._pattern is not None and any(name in text for name in self._telling) and self._pattern.search(text):
            return True
        if len(text) < SHORTEST_ID or not self.ids:
            return False
        return any(token.rstrip(".-") in self._sure_ids for token in _TOKEN.findall(text))

    @cached_property
    def _sure_ids(self) -> frozenset[str]:
        return frozenset(filter(_is_sure, self.ids))

    def finds(self, value: object, within: str = "") -> bool:
        """Whether a value has one of the names or ids; `within` is the field or key that it stands under."""
        if isinstance(value, str):
            return self._is_id(value, within) or self._is_in(value)
        if isinstance(value, bytes):
            return any(name in value for name in self._bytes)
        if isinstance(value, Mapping):
            return any(self.finds(key) or self.finds(inner, key) for key, inner in value.items())
        return isinstance(value, list | tuple) and any(self.finds(inner, within) for inner in value)

    def replaced(self, value: Any, within: str = "") -> Any:
        """The same value with pseudonyms."""
        if isinstance(value, str):
            if self._is_id(value, within):
                return self.ids[value]
            if len(value) >= SHORTEST_ID and self.ids:
                value = _TOKEN.sub(self._for_token, value)
            return self._pattern.sub(lambda found: self.pseudonym, value) if self._pattern is not None else value
        if isinstance(value, Mapping):
            return {self.replaced(key): self.replaced(inner, key) for key, inner in value.items()}
        return [self.replaced(inner, within) for inner in value] if isinstance(value, list | tuple) else value

    def fields_found(self, record: Record) -> list[str]:
        """The fields of a record that have one of the names or ids, references and identity left out."""
        values = record.__dict__
        return [name for name in _searched(type(record)) if values[name] and self.finds(values[name], name)]

    def changed_fields(self, record: Record, names: Iterable[str]) -> dict[str, Any]:
        """Fields with the pseudonym, as far as they can be changed."""
        values, table = record.__dict__, record.shape.table
        given = {
            name: self.replaced(values[name], name)
            for name in names
            if (table, name) not in _UNCHANGED and not isinstance(values[name], bytes)
        }
        if isinstance(record, Citation) and "evidence" in given:
            given["source"] = read_citation(given["evidence"]).source()
        return given


@cache
def _searched(record: type[Record]) -> tuple[str, ...]:
    left_out = {*_AUDIT, *_VOCABULARY, *record.shape.references, "vector", "tokens"}
    left_out |= {name for table, name in _OF_OTHERS if table == record.shape.table}
    texts = [one.name for one in record.columns() if one.type in ("text", "json", "bytes")]
    return tuple(name for name in texts if name not in left_out and not _is_choice(record, name))


def _is_choice(record: type[Record], name: str) -> bool:
    annotation = record.model_fields[name].annotation
    return any(get_origin(one) is Literal for one in (annotation, *get_args(annotation)))
