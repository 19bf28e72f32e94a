"""Ids are UUIDv7, made in their order, and no two are alike, whoever makes them."""

from __future__ import annotations

import os
import threading
import uuid

import pytest

from recollect.domain.record import RANDOM_AT_ONCE, id_after, made_at, new_id, random_bytes


def test_an_id_is_a_uuid_of_version_7_that_tells_when_it_was_made() -> None:
    for _ in range(2000):
        made = uuid.UUID(new_id())
        assert (made.version, made.variant) == (7, uuid.RFC_4122)
        assert made_at(str(made)) == (made.int >> 80) / 1000


def test_ids_sort_as_they_were_made() -> None:
    made = [new_id() for _ in range(20_000)]  # far more than one millisecond has numbers for
    assert made == sorted(set(made))


def test_an_id_after_one_of_a_clock_that_is_ahead() -> None:
    ahead = "0fffffff-ffff-7fff-bfff-ffffffffffff"
    after = id_after(ahead)
    assert after > ahead
    assert uuid.UUID(after).version == 7


def test_the_last_digits_are_chance() -> None:
    tails = {new_id()[19:] for _ in range(5000)}
    assert len(tails) == 5000
    assert {tail[0] for tail in tails} == set("89ab")
    assert {digit for tail in tails for digit in tail[1:].replace("-", "")} == set("0123456789abcdef")


def test_no_bytes_of_chance_are_given_out_twice() -> None:
    sizes = [1, 8, 16, RANDOM_AT_ONCE - 1, RANDOM_AT_ONCE, RANDOM_AT_ONCE + 1, 3 * RANDOM_AT_ONCE]
    assert [len(random_bytes(size)) for size in sizes] == sizes
    given: list[list[bytes]] = [[], []]

    def take(into: list[bytes]) -> None:
        into += [random_bytes(8) for _ in range(3000)]

    threads = [threading.Thread(target=take, args=(one,)) for one in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*given[0], *given[1]}) == 6000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_has_chance_of_its_own() -> None:
    random_bytes(8)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_bytes(8))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 8) != random_bytes(8)
    os.close(reading)
    os.close(writing)
