"""Sealed files: what is in them is read with the key alone, and every change of a byte is noticed."""

from __future__ import annotations

import os

import pytest

from recollect.adapters.encryption.master_key import MasterKey, new_data_key, new_key
from recollect.adapters.encryption.sealed import MAGIC, PIECE, content_size, seal, unseal
from recollect.errors import DamagedData, InvalidSettings, RecollectError, WrongKey


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7])
@pytest.mark.parametrize("step", [PIECE * 4, 999_983, 4096])
def test_content_of_every_size_comes_back_in_whatever_pieces(size: int, step: int) -> None:
    key, content = new_data_key(), os.urandom(size)
    sealed = b"".join(seal([content[at : at + 1000] for at in range(0, size, 1000)], key))
    assert content_size(len(sealed)) == size
    assert b"".join(unseal([sealed[at : at + step] for at in range(0, len(sealed), step)], key)) == content


def test_no_plain_byte_and_not_the_same_twice() -> None:
    key, content = new_data_key(), b"a marker that must not be seen " * 5000
    one, two = (b"".join(seal([content], key)) for _ in range(2))
    assert (b"marker" in one, one == two) == (False, False)


def test_every_damaged_byte_every_cut_and_every_swap_is_noticed() -> None:
    key, content = new_data_key(), os.urandom(2 * PIECE + 100)
    sealed = b"".join(seal([content], key))
    start = sealed.index(b"\n", len(MAGIC)) + 1
    size = PIECE + 16
    one, two, last = sealed[start : start + size], sealed[start + size : start + 2 * size], sealed[start + 2 * size :]
    broken = [
        sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        for at in (*range(len(MAGIC), start), start, start + 500, start + size, len(sealed) - 1)
    ]
    broken += [sealed[:at] for at in (start, start + 5, start + size, start + 2 * size, len(sealed) - 1)]
    broken += [
        sealed[:start] + part for part in (two + one + last, one + last, one + one + last, one + two + last + last)
    ]
    for each in broken:
        with pytest.raises((DamagedData, WrongKey)):
            b"".join(unseal([each], key))


def test_a_file_carries_its_key_wrapped_by_the_master_key() -> None:
    text = new_key()
    sealed = b"".join(seal([b"content"], MasterKey(text)))
    assert b"".join(unseal([sealed], MasterKey(text))) == b"content"
    with pytest.raises(WrongKey, match="another key"):
        b"".join(unseal([sealed], MasterKey(new_key())))


def test_a_wrapped_key_belongs_to_its_context() -> None:
    master, key = MasterKey(new_key()), new_data_key()
    wrapped = master.wrap(key, "organization a")
    assert (master.unwrap(wrapped, "organization a"), master.wrap(key, "organization a") == wrapped) == (key, False)
    for text, context in ((wrapped, "organization b"), (wrapped[:-4], "organization a"), ("", ""), ("w1:?", "")):
        with pytest.raises(WrongKey):
            master.unwrap(text, context)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", MAGIC, MAGIC + b"{}", MAGIC + b"\n", MAGIC + b"[]\n", b"x" * 9000]
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(RecollectError):
        b"".join(unseal([content], new_data_key()))


def test_a_short_key_is_refused_and_none_is_shown() -> None:
    with pytest.raises(InvalidSettings, match="recollect encryption new-key"):
        MasterKey("short")
    assert "correct horse" not in repr(MasterKey("correct horse battery staple"))
