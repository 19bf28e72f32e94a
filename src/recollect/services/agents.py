"""Agents: what they are told, whether they work, and the prompt that all of it makes.

An agent is active, paused or retired. A paused one keeps what it has and takes messages; a retired one takes no new
work of any sort until it is active again.
"""

from __future__ import annotations

from recollect.domain.agents import Agent
from recollect.errors import IllegalTransition
from recollect.ports.records import Require, Scope, Step
from recollect.services.core import Core


def at_work(core: Core, scope: Scope, id: str) -> list[Step]:
    """Refuse new work for a retired agent; the steps keep it so if it is retired this very moment."""
    agent = core.store.get(scope, Agent, id)
    if agent is None:
        return []  # the store names a missing reference in one way for all
    if agent.status == "retired":
        raise IllegalTransition("that agent is retired and takes no new work", remedy="make it active again", id=id)
    return [Require(Agent, id, {"status": agent.status})]
