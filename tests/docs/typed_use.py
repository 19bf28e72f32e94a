"""What a strict type checker says of the clients, checked by the run of mypy over all tests: what is right has no
error, and what is wrong has the one that is ignored here, for an ignored error that does not occur is an error, too.

Nothing of this runs. `test_docs.py` watches that mypy reads it by its strict rules.
"""

from __future__ import annotations

import recollect


def called() -> None:
    with recollect.open("x.db") as mem:
        id: str = mem.remember("a", cites=[recollect.cite.user("a", "b")], at="2024-05-01").id
        mem.remember_many(["a", {"content": "b"}])
        score: float = mem.recall("q", statuses=["verified"], boost={"recency": 1})[0].score
        tags: list[str] = mem.show(id).tags
        mem.recall("q", limitt=3)  # type: ignore[call-arg]
        mem.remember(5)  # type: ignore[arg-type]
        print(score, tags)


async def awaited() -> None:
    async with recollect.aopen("x.db") as mem:
        id: str = (await mem.remember("a", cites=[recollect.cite.user("a", "b")], at="2024-05-01")).id
        score: float = (await mem.recall("q", statuses=["verified"]))[0].score
        names: list[str] = [hit.text for hit in await mem.recall("q")]
        state: str = (await mem.run.show(id)).id
        await (await mem.within("acme")).backup("/tmp/x")
        await mem.recall("q", limitt=3)  # type: ignore[call-arg]
        await mem.remember(5)  # type: ignore[arg-type]
        print(score, names, state)
        print(mem.recall("q").hits)  # type: ignore[attr-defined]
    connected = await recollect.aconnect("http://x", "k", threads=2)
    print(connected.stats().memories)  # type: ignore[attr-defined]
    print(recollect.aopen("x.db").stats())  # type: ignore[attr-defined]
