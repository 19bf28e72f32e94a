"""Secrets in requests: masked, or refused, before anything is stored or logged.

`invoke` hands every request through here after it was validated, so an operation cannot forget to. A secret becomes a
mark such as `[secret: GitHub token 5f0c21aa]`. The digits are a hash keyed with a secret of the organization: equal
secrets have equal marks, so what was stored under one is found by it. Passwords and card numbers could be guessed from
a hash, so their marks have none. In bytes, such as the checkpoints of frameworks, a mark is as long as the secret: the
bytes around it stay where they are, and whatever format they are in stays readable.

What does not arrive in a request is masked where it is read: files of folders, lines of an import, samples of tables.
What is recognised is in domain/text/secret_formats.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from pydantic import BaseModel

from recollect.domain.record import DEEPEST_JSON
from recollect.domain.text.secret_formats import KEY_BY_NAME, kind_by_name
from recollect.domain.text.secrets import MARK, SHORTEST, FoundSecret, SecretPolicy, all_harmless, find
from recollect.domain.workspaces import Content
from recollect.errors import InvalidInput, SecretFound
from recollect.services.requests import AsGiven, MaskedSecret, Request

if TYPE_CHECKING:
    from recollect.services.tenant import Tenant

R = TypeVar("R", bound=Request)
M = TypeVar("M", bound=BaseModel)
K = TypeVar("K")
V = TypeVar("V")
HASH_DIGITS = 8
FEWEST_TOGETHER = 8
MOST_NAMED = 100
"""Fields that a receipt or an error names; a file with a secret on every line has more."""
# Words without capitals and digits, and ids as we make them: most texts of a request.
_HARMLESS = re.compile(r"[a-z_ .]*|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def masked_request(tenant: Tenant, request: R) -> tuple[R, list[MaskedSecret]]:
    """The request as it may be stored and logged, and what was masked in it."""
    if tenant.secrets.mode == "keep":
        return request, []
    texts = _plain_texts(request)
    if texts is not None and all_harmless(texts, tenant.secrets.formats):  # most requests: one look
        return request, []
    masking = Masking.of(tenant)
    masked = masking.model(request, "")
    return masked, masking.found


def refuse_secrets(policy: SecretPolicy, operation: str, found: Sequence[MaskedSecret]) -> None:
    """Raise SecretFound if the settings say so."""
    if found and policy.mode == "refuse":
        raise _refusal(operation, found)


def masked_value(tenant: Tenant, value: V) -> V:
    """Something to store that did not come in a request, such as samples of a table; it is never refused."""
    if tenant.secrets.mode == "keep":
        return value
    return cast(V, Masking.of(tenant).value(value, ""))


def masked_file(tenant: Tenant, path: str, data: Content) -> tuple[Content, list[MaskedSecret]]:
    """A file for a workspace. What is not text in UTF-8 stays as it is."""
    mode = tenant.secrets.in_files or tenant.secrets.mode
    if mode == "keep" or b"\0" in data[:1000]:
        return data, []
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        return data, []
    masking = Masking.of(tenant)
    masked = masking.text(text, path)
    if masking.found and mode == "refuse":
        raise _refusal("the file", masking.found)
    return (masked.encode() if masking.found else data), masking.found


def _refusal(what: str, found: Sequence[MaskedSecret]) -> SecretFound:
    named = ", ".join(f"{one.field} ({one.kind})" for one in found[:3])
    return SecretFound(
        f"{what}: there are secrets in {named}{' and more' if len(found) > 3 else ''}",
        remedy="leave them out and say where they are kept, or set `secrets: mask`",
        found=[one.model_dump() for one in found],
    )


class Masking:
    """Replaces secrets by marks, and counts them by field and kind. Nothing that is given is changed: what holds a
    secret is copied, and what holds none is returned as it is.
    """

    def __init__(self, policy: SecretPolicy, keyed: Callable[[str], str]) -> None:
        self._policy, self._keyed = policy, keyed
        self._counts: Counter[tuple[str, str]] = Counter()

    @classmethod
    def of(cls, tenant: Tenant) -> Masking:
        return cls(tenant.secrets, lambda hash: tenant.keyring.keyed(tenant.scope, hash))

    @property
    def found(self) -> list[MaskedSecret]:
        """In the order in which they were found."""
        counts = list(self._counts.items())[:MOST_NAMED]
        return [MaskedSecret(field=field or "it", kind=kind, count=count) for (field, kind), count in counts]

    def text(self, text: str, field: str, part: str = "") -> str:
        """`part` is the place of the text within the field."""
        if len(text) < SHORTEST or _HARMLESS.fullmatch(text):
            return text
        found = find(text, self._policy.formats)
        return self._marked(text, found, f"{field}.{part}" if field and part else field or part) if found else text

    def _marked(self, text: str, found: Sequence[FoundSecret], field: str) -> str:
        parts, end = [], 0
        for secret in found:
            value = text[secret.start : secret.end]
            if not self._policy.allows(value):
                parts += [text[end : secret.start], self._mark(secret.kind, value, field, hashed=secret.is_random)]
                end = secret.end
        return "".join([*parts, text[end:]]) if parts else text

    def data(self, data: bytes, field: str) -> bytes:
        """Bytes of any format: every mark is as long as the secret."""
        text = data.decode("latin-1")
        masked = bytearray(data)
        for secret in find(text, self._policy.formats):
            if not self._policy.allows(text[secret.start : secret.end]):
                self._counts[field, secret.kind] += 1
                masked[secret.start : secret.end] = _mark_of_length(secret.kind, secret.end - secret.start)
        return bytes(masked) if masked != data else data

    def value(self, value: object, field: str, depth: int = 0) -> object:
        """Anything that a request may hold."""
        if isinstance(value, str):
            return self.text(value, field)
        if isinstance(value, bytes):
            return self.data(value, field)
        if isinstance(value, BaseModel):
            return self.model(value, field, depth)
        if isinstance(value, dict):
            return self.mapping(value, field, depth)
        if isinstance(value, list | tuple) and not (value and isinstance(value[0], float)):  # a vector
            clean = self._harmless(value) if len(value) >= FEWEST_TOGETHER else frozenset()
            inner = [
                one if place in clean else self._inside(one, field, str(place), depth)
                for place, one in enumerate(value)
            ]
            changed = any(one is not other for one, other in zip(inner, value, strict=True))
            return (tuple(inner) if isinstance(value, tuple) else inner) if changed else value
        return value

    def model(self, model: M, field: str, depth: int = 0) -> M:
        changed: dict[str, object] = {}
        as_given = _as_given(type(model))
        # What a request leaves out is our own default.
        given = model.model_fields_set if isinstance(model, Request) else model.__dict__
        for name, value in model.__dict__.items():
            if name not in given:
                continue
            kind = type(value)
            if kind in _WITHOUT_TEXT or name in as_given or (kind in _CONTAINERS and not value):
                continue
            masked = self.text(value, field, name) if kind is str else self._inside(value, field, name, depth)
            if masked is not value:
                changed[name] = masked
        return model.model_copy(update=changed) if changed else model

    def _harmless(self, many: Sequence[object]) -> set[int]:
        """The places of requests that one look at many together shows to be without secrets."""
        texts = {place: found for place, one in enumerate(many) if (found := _plain_texts(one)) is not None}
        clean: set[int] = set()
        waiting = [list(texts)]
        while waiting:
            some = waiting.pop()
            if all_harmless([text for place in some for text in texts[place]], self._policy.formats):
                clean.update(some)
            elif len(some) >= FEWEST_TOGETHER:
                waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
        return clean

    def mapping(self, given: dict[K, Any], field: str, depth: int = 0) -> dict[K, Any]:
        masked: dict[Any, object] = {}
        for name, value in given.items():
            key = self.text(name, field) if isinstance(name, str) else name
            kind = kind_by_name(name, value) if isinstance(name, str) and isinstance(value, str) else None
            if kind is not None and not self._policy.allows(str(value)):
                place = f"{field}.{key}".removeprefix(".")
                masked[key] = self._mark(kind, str(value), place, hashed=kind == KEY_BY_NAME)
            else:
                masked[key] = self._inside(value, field, str(key), depth)
        changed = any(masked.get(name, masked) is not value for name, value in given.items())
        return masked if changed else given

    def _inside(self, value: object, field: str, part: str, depth: int) -> object:
        if depth > 2 * DEEPEST_JSON:
            top = field.partition(".")[0]
            raise InvalidInput(f"{top}: must not be nested more than {DEEPEST_JSON} levels deep", remedy="flatten it")
        return self.value(value, f"{field}.{part}" if field else part, depth + 1)

    def _mark(self, kind: str, value: str, field: str, *, hashed: bool) -> str:
        self._counts[field, kind] += 1
        if not hashed:
            return f"{MARK}{kind}]"
        digest = self._keyed(sha256(value.encode("utf-8", "replace")).hexdigest())
        return f"{MARK}{kind} {digest[-HASH_DIGITS:]}]"


def _plain_texts(given: object) -> list[str] | None:
    """The texts of a request that holds nothing but texts and what has none; None of anything else."""
    if not isinstance(given, Request):
        return None
    values, texts = given.__dict__, []
    for name in given.model_fields_set:
        value = values[name]
        kind = type(value)
        if kind is str:
            texts.append(value)
        elif kind not in _WITHOUT_TEXT and not (kind in _CONTAINERS and not value):
            return None
    return texts


_WITHOUT_TEXT = frozenset({type(None), bool, int, float, datetime})
_CONTAINERS = frozenset({list, dict, tuple})


def _mark_of_length(kind: str, length: int) -> bytes:
    mark = next((one for one in (f"{MARK}{kind}", "[secret") if len(one) < length), "")
    return (mark.ljust(length - 1, "*") + "]" if mark else "*" * length).encode()


@cache
def _as_given(model: type[BaseModel]) -> frozenset[str]:
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if _is_marked(field.metadata) or _is_marked([field.annotation]))


def _is_marked(parts: Sequence[object]) -> bool:
    """Whether the mark is among these, or inside one: `Annotated[str, AS_GIVEN] | None` has it inside."""
    return any(isinstance(one, AsGiven) or _is_marked(get_args(one)) for one in parts)
