"""Vectors by hand, several models side by side, and what importers keep of where memories come from."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.domain.memory import Memory
from recollect.errors import Denied, InvalidInput, NotFound
from recollect.ports.records import Scope
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import remember

EAST, NORTH = [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]


def test_vectors_of_several_models_stand_side_by_side(every: Any) -> None:
    tea, sea = every.remember("tea is hot").id, every.remember("the sea is wide", namespaces=["long_term", "trips"]).id
    every.embedding.add(tea, EAST, "compass")
    every.embedding.add(sea, NORTH, "compass")
    every.embedding.add(sea, [0.5, 0.5], "flat", namespace="trips")
    listed = every.embedding.list(sea, vectors=True)
    assert [(one.model, one.namespace, one.given) for one in listed] == [
        ("compass", "long_term", True), ("compass", "trips", True), ("flat", "trips", True),
        ("hash-64", "long_term", False), ("hash-64", "trips", False),
    ]  # fmt: skip
    assert listed[0].vector == [0.0, 1.0, 0.0]
    assert every.embedding.list(sea, model="flat")[0].vector is None
    assert [one.id for one in every.recall("x", vector=NORTH, vector_model="compass", by="meaning")][:1] == [sea]
    every.embedding.add(sea, EAST, "compass")  # takes the place of the former
    assert [one.vector for one in every.embedding.list(sea, model="compass", vectors=True)] == [EAST, EAST]
    assert every.embedding.remove(sea, "compass", namespace="trips").removed == 1
    assert every.embedding.remove(sea, "compass").removed == 1
    with pytest.raises(NotFound, match="no vectors by 'compass'"):
        every.embedding.remove(sea, "compass")
    assert every.embedding.remove(sea, "hash-64").notes
    every.reindex()
    assert {one.model for one in every.embedding.list(sea)} == {"flat", "hash-64"}
    every.revise(tea, "tea is cold")  # which its vectors say nothing of
    assert {one.model for one in every.embedding.list(tea)} == {"hash-64"}


def test_a_vector_that_cannot_be_stored_is_refused(each: Any) -> None:
    tea = each.remember("tea is hot").id
    each.embedding.add(tea, EAST, "compass")
    for wrong, said in (
        ({"vector": [], "model": "m"}, "dimensions"),
        ({"vector": [0.0, 0.0], "model": "m"}, "direction"),
        ({"vector": [1.0, 0.0], "model": "compass"}, "have 3"),
        ({"vector": EAST, "model": "m", "namespace": "elsewhere"}, "not in the namespace"),
    ):
        with pytest.raises(InvalidInput, match=said):
            each.embedding.add(tea, **wrong)
    with pytest.raises(NotFound):
        each.embedding.add("nobody's", EAST, "compass")


def test_importers_keep_ids_times_scores_and_vectors(each: Any) -> None:
    moved = each.remember(
        "tea is hot", id="old-17", created_at="2020-02-03T04:05:06Z", score=0.7, vector=EAST, vector_model="ada"
    )
    stored = each._tenant.get(Memory, moved.id)
    assert (stored.id, stored.score) == ("old-17", 0.7)
    assert stored.created_at == stored.updated_at == stored.occurred_at
    assert stored.created_at.isoformat() == "2020-02-03T04:05:06+00:00"
    assert each.remember("tea is hot").id == "old-17"  # it is the same memory as ever
    with pytest.raises(InvalidInput, match="future"):
        each.remember("x", created_at="2999-01-01")
    for fields in ({"created_at": "2020-02-03T04:05:06Z"}, {"score": 0.7}):
        request = RememberRequest.model_validate({"content": "x", **fields})
        writer = each._core.for_scope(Scope(each.organization, "ann", frozenset({"read", "write"})))
        with pytest.raises(Denied, match=f"{next(iter(fields))} can be set by importers only"):
            remember(writer, request)
        importer = each._core.for_scope(Scope(each.organization, "ann", frozenset({"read", "write", "admin"})))
        assert remember(importer, request).id
