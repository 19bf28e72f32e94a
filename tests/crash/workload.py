"""Mixed writes through the public client, each announced before and acknowledged after in a log.

One `Hand` is one thread that writes only memories of its own, so it knows how each must read after each write. It
announces that state, makes the write, and acknowledges it when the call has returned. Whatever happens to the process,
the log then says what must be in the store, and what may be: the one write of each hand that was not acknowledged.
"""

from __future__ import annotations

import copy
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import recollect

State = dict[str, Any]
Note = Callable[[dict[str, Any]], None]
WORDS = "amber basil cedar delta ember fjord grove haven islet jetty knoll lagoon maple north oasis".split()
VERBS = {
    "remember": 30,
    "remember_many": 8,
    "revise": 18,
    "retag": 6,
    "cite": 8,
    "promote": 8,
    "relate": 8,
    "forget": 8,
    "restore": 8,
    "erase": 2,
}


class Hand:
    def __init__(self, mem: Any, name: str, chance: random.Random, note: Note, states: dict[str, State]) -> None:
        self.mem = mem
        self.name = name
        self.chance = chance
        self.note = note
        self.states = states
        self.made = 0

    def write(self, verb: str | None = None) -> None:
        """One write, of a random kind if none is given: announced, made, acknowledged."""
        verb = verb or self.chance.choices(list(VERBS), list(VERBS.values()))[0]
        prepared = getattr(self, verb)()
        if prepared is None:
            prepared = self.remember()
        after, call = prepared
        self.note({"by": self.name, "verb": verb, "after": after})
        call()
        self.note({"by": self.name, "done": True})
        for id, state in after.items():
            if state is None:
                del self.states[id]
            else:
                self.states[id] = state

    # -- the verbs: how the memories will read, and the call that makes them so ---------------------------------------

    def remember(self) -> Any:
        id, state = self._new()
        tags, cites = state["tags"], self._citations(state["citations"])
        return {id: state}, lambda: self._stored(self.mem.remember(state["text"], id=id, tags=tags, cites=cites))

    def remember_many(self) -> Any:
        new = dict(self._new() for _ in range(3))
        first, second, _ = new
        new[second]["links"].append([first, "derived_from"])
        requests = [
            {"content": state["text"], "id": id, "tags": state["tags"], "cites": self._citations(state["citations"])}
            for id, state in new.items()
        ]
        requests[1]["derived_from"] = [first]
        return new, lambda: [self._stored(one) for one in self.mem.remember_many(requests).receipts]

    def revise(self) -> Any:
        id, state = self._one()
        if id is None:
            return None
        version = state["version"]
        text = f"anchor {_word(id)} {self._words()} revised {version}"
        state |= {"text": text, "version": version + 1, "audit": state["audit"] + 1, "status": "hypothesis"}
        return {id: state}, lambda: self.mem.revise(id, text, version=version, why="the test says so")

    def retag(self) -> Any:
        id, state = self._one()
        tags = self._tags()
        if id is None or tags == state["tags"]:
            return None
        state |= {"tags": tags, "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.revise(id, tags=tags)

    def cite(self) -> Any:
        id, state = self._one()
        if id is None:
            return None
        cited = self._citations(1)
        state |= {"citations": state["citations"] + 1, "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.cite(id, cited)

    def promote(self) -> Any:
        id, state = self._one(lambda one: one["status"] == "hypothesis" and one["citations"] > 0)
        if id is None:
            return None
        state |= {"status": "verified", "version": state["version"] + 1, "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.promote(id)

    def relate(self) -> Any:
        id, state = self._one()
        other, _ = self._one()
        if id is None or id == other or [other, "supports"] in state["links"]:
            return None
        state |= {"links": sorted([*state["links"], [other, "supports"]]), "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.relate(id, other, "supports")

    def forget(self) -> Any:
        id, state = self._one()
        if id is None:
            return None
        state |= {"deleted": True, "version": state["version"] + 1, "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.forget(id)

    def restore(self) -> Any:
        id, state = self._one(deleted=True)
        if id is None:
            return None
        state |= {"deleted": False, "version": state["version"] + 1, "audit": state["audit"] + 1}
        return {id: state}, lambda: self.mem.restore(id)

    def erase(self) -> Any:
        id, _ = self._one()
        if id is None:
            return None
        after: dict[str, State | None] = {id: None}
        for other, state in self.states.items():
            kept = [database for database in state["links"] if database[0] != id]
            if other != id and kept != state["links"]:
                after[other] = {**copy.deepcopy(state), "links": kept}
        return after, lambda: self.mem.erase(id)

    # -- what they are made of ----------------------------------------------------------------------------------------

    def _new(self) -> tuple[str, State]:
        self.made += 1
        id = f"{self.name}-{self.made}"
        return id, {
            "text": f"anchor {_word(id)} {self._words()}",
            "version": 1,
            "status": "hypothesis",
            "deleted": False,
            "tags": self._tags(),
            "citations": self.chance.randrange(3),
            "links": [],
            "audit": 1,
        }

    def _one(self, wanted: Callable[[State], bool] = lambda one: True, *, deleted: bool = False) -> Any:
        found = [id for id, one in self.states.items() if one["deleted"] is deleted and wanted(one)]
        id = self.chance.choice(found) if found else None
        return id, copy.deepcopy(self.states[id]) if id else {}

    def _tags(self) -> list[str]:
        return sorted(self.chance.sample(WORDS, self.chance.randrange(4)))

    def _words(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.choice((3, 5, 200))))

    def _citations(self, count: int) -> list[Any]:
        said = self.chance.getrandbits(64)
        return [recollect.cite.user(f"user{number}", f"said {said}") for number in range(count)]

    def _stored(self, receipt: Any) -> None:
        assert (receipt.indexed, receipt.queued) == (["text", "vector:hash-64"], []), receipt


def _word(id: str) -> str:
    return id.replace("-", "")


def hands(mem: Any, life: int, count: int, seed: str, note: Note, states: dict[str, State]) -> list[Hand]:
    """Each with its own share of the memories that are there already."""
    shares: list[dict[str, State]] = [{} for _ in range(count)]
    # Linked memories stay in one hand: erasing one changes the other.
    for id in states:
        shares[int(id.split("-")[0].rpartition("h")[2]) % count][id] = states[id]
    return [
        Hand(mem, f"l{life}h{number}", random.Random(f"{seed} {number}"), note, shares[number])
        for number in range(count)
    ]


def at_work(crew: list[Hand], turns: Iterator[int]) -> None:
    """All hands at once, until the turns are over; a hand that fails says so in the log."""
    threads = [threading.Thread(target=_turns, args=(hand, turns), name=hand.name) for hand in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _turns(hand: Hand, turns: Iterator[int]) -> None:
    try:
        for _ in turns:
            hand.write()
    except Exception:  # noqa: BLE001 - the edge of a thread: the test that reads the log fails with it
        hand.note({"by": hand.name, "problem": traceback.format_exc()})
