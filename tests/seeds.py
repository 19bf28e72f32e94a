"""Where the choices of the tests come from, so that a run can be repeated.

`make test` makes the same choices every time: a red run is about the change at hand. `make soak` makes new ones, many
more of them, and prints the seed that makes them again: `RECOLLECT_SEED=…`. What a soak finds is written down in
found_seeds.txt, or as an `@example`, and from then on every `make test` tries it.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import hypothesis.core
from hypothesis import HealthCheck, settings

T = TypeVar("T")
EVERYDAY = 1
FOUND = Path(__file__).with_name("found_seeds.txt")
SOAK = bool(os.environ.get("RECOLLECT_SOAK"))


def chosen(environment: Mapping[str, str]) -> int:
    given = environment.get("RECOLLECT_SEED")
    if given:
        return int(given)
    return secrets.randbits(32) if environment.get("RECOLLECT_SOAK") else EVERYDAY


SEED = chosen(os.environ)


def some(count: int, of: Iterable[T], purpose: str, *, seed: int = SEED, soak: bool = SOAK) -> list[T]:
    """So many of them, chosen by the seed for each purpose anew, in their order; all of them in a soak."""
    whole = list(of)
    if soak or count >= len(whole):
        return whole
    places = random.Random(f"{seed} {purpose}").sample(range(len(whole)), count)
    return [whole[place] for place in sorted(places)]


def load_profile() -> None:
    """For Hypothesis: every day derived from the tests themselves, else from the seed, and from nothing remembered."""
    unhurried = [HealthCheck.too_slow]  # it looks at a clock, and a busy machine is no mistake of the code
    settings.register_profile("everyday", derandomize=True, suppress_health_check=unhurried)
    settings.register_profile("soak", print_blob=True, database=None, suppress_health_check=unhurried)
    is_everyday = not SOAK and SEED == EVERYDAY
    settings.load_profile("everyday" if is_everyday else "soak")
    if not is_everyday:
        os.environ["RECOLLECT_SEED"] = str(SEED)  # the processes that share the work make one choice
        hypothesis.core.global_force_seed = SEED  # type: ignore[assignment]


def replay(test: str) -> str:
    """What a person types to see it again."""
    return f"{'RECOLLECT_SOAK=1 ' if SOAK else ''}RECOLLECT_SEED={SEED} .venv/bin/python -m pytest '{test}'"


def found() -> Iterator[tuple[str, str]]:
    """The tests that a soak saw failing, and with which seed."""
    for line in FOUND.read_text(encoding="utf-8").splitlines():
        told = line.partition("#")[0].split()
        if told:
            test, seed = told
            yield test, seed
