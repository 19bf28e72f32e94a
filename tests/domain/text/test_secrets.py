"""Secrets are found in every format that is promised, whole, and ordinary text is left alone."""

from __future__ import annotations

import base64
import hashlib
import random
import re
import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.text.secret_formats import FORMATS, IBAN, SecretFormat, is_card_number
from recollect.domain.text.secrets import SecretPolicy, all_harmless, find
from recollect.testing.made_secrets import TEMPLATES, made

ORDINARY = {
    "UUID": f"the run {uuid.UUID(int=0x0192F0C7_8A3E_7B42_9C5D_3E1F2A4B5C6D)} is done",
    "git hash": "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 fixes it",
    "sha256": f"sha256:{hashlib.sha256(b'x').hexdigest()}",
    "integrity of a lock file": f'"integrity": "sha512-{base64.b64encode(hashlib.sha512(b"x").digest()).decode()}"',
    "image": "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 20).decode(),
    "placeholder": "export API_KEY=your_api_key_here DB_PASSWORD=<password> TOKEN=${TOKEN} SECRET=xxxxxxxxxxxxxxxx",
    "URL of the documentation": "postgresql://user:password@localhost/db and redis://:${REDIS_PASSWORD}@cache",
    "code": "password = request.form['password']; api_key = os.environ['OPENAI_API_KEY']; token = self.next_token()",
    "names": "token_count: 1200, key = 'customer_id', secret_name='prod/db-credentials-2024', passwordless=True",
    "public key": "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
    "a key that is talked about": "it begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----",
    "number": "order 1234567890123456, time 1731774900123, phone +49 151 2345 6789, 3.14159265358979323846",
    "mark": "the key is [secret: GitHub token 5f0c21aa], password=[secret: password]",
    "time": "2026-11-16T17:57:31.069117+00:00 and 20261116175731069117",
    "Chinese": "用户的密码已经重置，请使用新的令牌登录。会议改到星期四上午十点。",
    "hyphens": "task-sk-learn-classifier-with-a-very-long-name-2024-11 and risk-based-approach-to-things",
}


@pytest.mark.parametrize("format", TEMPLATES)
def test_a_secret_of_every_format_is_found_whole(format: str) -> None:
    for seed in range(20):
        secret, text = made(format, seed)
        start = text.index(secret)
        found = find(text)
        assert any(one.start <= start and start + len(secret) <= one.end for one in found), (text, found)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_text_has_no_secrets(name: str) -> None:
    assert find(ORDINARY[name]) == []


def test_our_own_sources_and_pages_have_hardly_any() -> None:
    """What is found there are addresses with a made-up password."""
    root = Path(__file__).parents[3]
    files = [
        *root.glob("src/recollect/[!t]*/**/*.py"),
        *root.glob("docs/**/*.md"),
        *root.glob("*.md"),
        root / "requirements.lock",
    ]
    found = [(file.name, one.kind) for file in files for one in find(file.read_text(encoding="utf-8"))]
    assert len(files) > 300
    shown = ("secrets.md", "AWS access key")  # the guide shows one
    assert [one for one in found if one[1] != "password in a URL" and one != shown] == []


def test_a_card_number_has_a_known_issuer_and_the_right_check_digit() -> None:
    assert is_card_number("4242 4242 4242 4242")
    assert is_card_number("4111111111111111")
    assert is_card_number("5555-5555-5555-4444")
    assert not is_card_number("4111111111111112")
    assert not is_card_number("1111111111111117")


def test_an_iban_is_found_only_where_it_is_asked_for() -> None:
    text = "pay to DE89 3704 0044 0532 0130 00 please, not DE89 3704 0044 0532 0130 01"
    assert find(text) == []
    (found,) = find(text, (*FORMATS, IBAN))
    assert text[found.start : found.end] == "DE89 3704 0044 0532 0130 00"


def test_letters_that_change_their_length_hide_nothing() -> None:
    _, text = made("password")
    assert any(one.kind == "password" for one in find("İİİİ " + text.replace("PASSWORD", "PaSsWoRd")))


def test_what_stands_together_is_found_apart_and_what_overlaps_once() -> None:
    key, _ = made("GitHub token")
    other, _ = made("Anthropic key")
    assert [one.kind for one in find(f"{key} {other},{key}")] == ["GitHub token", "Anthropic key", "GitHub token"]
    (found,) = find(f'token="{key}"')
    assert found.kind == "GitHub token"


def test_harmless_values_are_named_by_an_expression_or_a_hash() -> None:
    key, _ = made("AWS access key")
    hashed = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    assert SecretPolicy(allow=(r"AKIA.*",)).allows(key)
    assert SecretPolicy(allow=(hashed,)).allows(key)
    assert not SecretPolicy(allow=("AKIA", "sha256:00")).allows(key)


@given(st.text(max_size=300), st.sampled_from(sorted(TEMPLATES)), st.text(max_size=300))
def test_places_are_in_order_and_apart(before: str, format: str, after: str) -> None:
    found = find(f"{before} {made(format)[1]} {after}")
    assert all(one.end <= two.start for one, two in pairwise(found))
    assert all(one.start < one.end for one in found)


@pytest.mark.parametrize(
    "one", [one for one in (*FORMATS, IBAN) if one.gate is not None], ids=lambda one: str(one.kind)
)
def test_a_quick_look_misses_nothing_that_the_pattern_finds(one: SecretFormat) -> None:
    """With the digits of other scripts, too: some patterns take them."""
    chance, found = random.Random(1), 0
    for _ in range(20_000):
        text = "".join(chance.choice("0123456789٣ -AB" if chance.random() < 0.5 else "0123456789") for _ in range(24))
        if one.pattern.search(text):
            found += 1
            assert one.gate is not None
            assert one.gate.search(text), text
    assert found > 50


LETTERS = "the old key İ K Σ ß 12 4111 1111 AB12 pass word=x pwd :// bear 漢字 \ud800 \x00 -----BEGIN token"


def test_a_look_at_many_texts_misses_none_that_holds_a_secret() -> None:
    """However they stand beside each other: some are short, some have letters that change their length."""
    chance, formats, harmless = random.Random(3), (*FORMATS, IBAN), 0
    secrets = [made(format, seed)[1] for format in TEMPLATES for seed in range(3)]
    for _ in range(4000):
        some = [" ".join(chance.choices(LETTERS.split(" "), k=chance.randrange(6))) for _ in range(chance.randrange(6))]
        if chance.random() < 0.3:
            some.insert(chance.randrange(len(some) + 1), chance.choice(secrets))
        if all_harmless(some, formats):
            harmless += 1
            assert [find(text, formats) for text in some] == [[] for _ in some], some
    assert 200 < harmless < 3500
    # A letter that becomes two when it is made small, beside one that is small only in Unicode.
    assert not all_harmless(["İ", "the to\u212aen"])


@pytest.mark.parametrize("one", [*FORMATS, IBAN], ids=lambda one: str(one.kind))
def test_a_quick_look_does_not_depend_on_what_stands_around(one: SecretFormat) -> None:
    assert one.gate is None or not re.search(r"[\^$]|\\[AZbB]|\(\?[=!<]", one.gate.pattern)
