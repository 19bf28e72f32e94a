"""The awaitable client: the loop goes on, cancelling leaves nothing half done, closing waits for what is running."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.catalogue import FORMER_NAMES, GROUPS, OPERATIONS, SYNONYMS
from recollect.errors import Closed, InvalidInput, InvalidSettings, NotFound, Unavailable
from recollect.interfaces.async_client import AsyncRecollect
from recollect.interfaces.async_threads import THREADS
from recollect.ports.models import Vectors
from recollect.testing.fakes import HashEmbedder
from serving import served

TICKS = 50
HELD = "held back"


class HeldEmbedder(HashEmbedder):
    """Waits with every text that says so, until it is let go; counts how many wait at once."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.waits = threading.Semaphore(0)
        self.most, self._now, self._lock = 0, 0, threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any(HELD in text for text in texts):
            self._wait()
        return super().embed(texts)

    def _wait(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.waits.release()
        assert self.let_go.wait(60)
        with self._lock:
            self._now -= 1


@pytest.fixture
def embedder() -> Iterator[HeldEmbedder]:
    made = HeldEmbedder()
    yield made
    made.let_go.set()


async def waiting(embedder: HeldEmbedder, count: int = 1) -> None:
    """When so many operations are held in their threads."""
    for _ in range(count):
        await asyncio.to_thread(embedder.waits.acquire)


async def ticks(count: int = TICKS) -> int:
    for _ in range(count):
        await asyncio.sleep(0)
    return count


def join_closing() -> None:
    """The thread that closes ends a moment after it has said that it is done."""
    for one in threading.enumerate():
        if one.name == "recollect-async-close":
            one.join()


def texts_in(path: Path) -> list[str]:
    """What is there for whoever opens the store next, which must be sound."""
    with recollect.open(path, embedder=HashEmbedder()) as mem:
        assert mem.verify().sound
        return sorted(str(one.text) for one in mem.list())


@pytest.mark.parametrize("name", [*OPERATIONS, *SYNONYMS])
def test_every_operation_can_be_awaited_and_is_one_of_the_synchronous_client(name: str) -> None:
    group, _, verb = name.rpartition(".")
    home = getattr(AsyncRecollect, group).fget if group else AsyncRecollect
    method = home.__dict__.get(verb)
    method = method.fget.__call__ if isinstance(method, property) else method  # `mem.backup()`, `mem.backup.list()`
    assert inspect.iscoroutinefunction(method)
    assert method.__doc__ == OPERATIONS[SYNONYMS.get(name, name)].summary


def test_names_that_operations_had_are_not_in_it() -> None:
    assert not set(FORMER_NAMES) & set(vars(AsyncRecollect)) - set(OPERATIONS) - set(GROUPS)


def test_it_can_be_awaited_or_entered(tmp_path: Path) -> None:
    async def main() -> None:
        mem = await recollect.aopen(tmp_path / "x.db", embedder="hash")
        receipt = await mem.remember("Alice prefers pytest", tags=["testing"])
        await mem.close()
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            hits = await mem.recall("which framework does Alice prefer?")
            assert [hit.id for hit in hits] == [receipt.id] == [hits[0].id]
            assert (await mem.show(receipt.id)).tags == ["testing"]
            assert len(await mem.run.list()) == 0
            assert (await mem.call("stats")).memories == 1
            assert await mem.timezone() == "UTC"
        async with await recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            assert (await mem.stats()).memories == 1

    asyncio.run(main())


def test_many_awaits_at_once_are_all_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            written = await asyncio.gather(*(mem.remember(f"Note number {number}") for number in range(60)))
            assert len({one.id for one in written}) == 60
            found = await asyncio.gather(*(mem.show(one.id) for one in written))
            assert [one.text for one in found] == [f"Note number {number}" for number in range(60)]
            assert (await mem.verify()).sound

    asyncio.run(main())


def test_the_loop_goes_on_while_an_operation_is_held(tmp_path: Path, embedder: HeldEmbedder) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder=embedder) as mem:
            held = asyncio.create_task(mem.remember(f"A memory that is {HELD}"))
            await waiting(embedder)
            assert await ticks() == TICKS
            assert (await mem.stats()).memories == 0  # others are answered
            assert not held.done()
            embedder.let_go.set()
            assert (await held).version == 1

    asyncio.run(main())


def test_the_loop_goes_on_while_a_memory_is_opened_and_closed(tmp_path: Path) -> None:
    slow = SlowToOpen()

    async def main() -> None:
        opening = asyncio.ensure_future(recollect.aopen(tmp_path / "x.db", embedder=slow))
        await asyncio.to_thread(slow.asked.wait)
        assert await ticks() == TICKS
        assert not opening.done()
        slow.let_go.set()
        mem = await opening
        held = HeldEmbedder()
        slow.embed = held.embed  # type: ignore[method-assign]
        last = asyncio.create_task(mem.remember(f"The last one, {HELD}"))
        await waiting(held)
        closing = asyncio.create_task(mem.aclose())
        assert await ticks() == TICKS
        assert not closing.done()  # it waits for what is running
        held.let_go.set()
        await closing
        assert (await last).version == 1

    asyncio.run(main())
    assert texts_in(tmp_path / "x.db") == [f"The last one, {HELD}"]


class SlowToOpen(HashEmbedder):
    """Asked for its name when a memory is opened; answers when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = threading.Event(), threading.Event()

    @property
    def model(self) -> str:
        self.asked.set()
        assert self.let_go.wait(60)
        return super().model


def test_only_so_many_run_at_once_and_the_loops_own_threads_are_left_alone(
    tmp_path: Path, embedder: HeldEmbedder
) -> None:
    async def main(count: int | None) -> None:
        given: dict[str, Any] = {} if count is None else {"threads": count}
        async with recollect.aopen(tmp_path / f"{count}.db", embedder=embedder, **given) as mem:
            held = [asyncio.create_task(mem.remember(f"Number {number} is {HELD}")) for number in range(THREADS + 5)]
            await waiting(embedder, count or THREADS)  # which itself asks the loop's default threads
            assert await asyncio.to_thread(lambda: "free") == "free"
            await ticks()
            assert embedder.most == (count or THREADS)
            embedder.let_go.set()
            assert len({one.id for one in await asyncio.gather(*held)}) == THREADS + 5

    asyncio.run(main(None))
    embedder.let_go.clear()
    embedder.most, embedder.waits = 0, threading.Semaphore(0)
    asyncio.run(main(2))
    for wrong in (0, -1, True, "many"):
        with pytest.raises(InvalidInput, match="at least 1"):
            recollect.aopen(tmp_path / "x.db", threads=wrong)  # type: ignore[arg-type]


def test_who_is_cancelled_hears_it_at_once_and_the_memory_is_whole(tmp_path: Path, embedder: HeldEmbedder) -> None:
    text = f"Whole, though {HELD}"

    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder=embedder) as mem:
            task = asyncio.create_task(mem.remember(text, tags=["kept"]))
            await waiting(embedder)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not embedder.let_go.is_set()  # it is still held, and did not hold up who was cancelled
            embedder.let_go.set()

    asyncio.run(main())
    assert texts_in(tmp_path / "x.db") == [text]
    with recollect.open(tmp_path / "x.db", embedder=HashEmbedder()) as mem:
        assert mem.recall(text)[0].tags == ["kept"]


def test_what_had_not_begun_when_it_was_cancelled_is_absent(tmp_path: Path, embedder: HeldEmbedder) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder=embedder, threads=1) as mem:
            first = asyncio.create_task(mem.remember(f"First, {HELD}"))
            await waiting(embedder)
            second = asyncio.create_task(mem.remember("Second, never begun"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await mem.remember("Third, out of time")
            await ticks()
            second.cancel()
            await asyncio.wait([second])
            embedder.let_go.set()
            await first

    asyncio.run(main())
    assert texts_in(tmp_path / "x.db") == [f"First, {HELD}"]


def test_who_was_cancelled_calls_again_with_the_same_key_and_it_is_stored_once(
    tmp_path: Path, embedder: HeldEmbedder
) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder=embedder) as mem:
            first = asyncio.create_task(mem.remember(f"Once, {HELD}", idempotency_key="k"))
            await waiting(embedder)
            first.cancel()
            again = asyncio.create_task(mem.remember(f"Once, {HELD}", idempotency_key="k"))
            await waiting(embedder)  # both are past the look for the key now
            embedder.let_go.set()
            receipt = await again
            assert [one.id for one in await mem.list()] == [receipt.id]

    asyncio.run(main())
    assert texts_in(tmp_path / "x.db") == [f"Once, {HELD}"]


def test_many_cancelled_anywhere_leave_each_memory_whole_or_absent(tmp_path: Path) -> None:
    wanted = {f"Number {number} of many" for number in range(80)}

    async def main() -> set[str]:
        done = set()
        async with recollect.aopen(tmp_path / "x.db", embedder="hash", threads=3) as mem:
            tasks = {text: asyncio.create_task(mem.remember(text, tags=["many"])) for text in sorted(wanted)}
            for number, (text, task) in enumerate(tasks.items()):
                if number % 3:
                    await asyncio.wait([task])
                    done.add(text)
                else:
                    task.cancel()
            await asyncio.wait(tasks.values())
        return done

    acknowledged = asyncio.run(main())
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        assert mem.verify().sound
        found = {str(one.text): mem.show(one.id).tags for one in mem.list(limit=100)}
    assert acknowledged <= set(found) <= wanted
    assert all(tags == ["many"] for tags in found.values())


def test_an_opening_that_is_cancelled_lets_go_of_the_store(tmp_path: Path) -> None:
    """A DuckDB file that stayed open would be locked for other processes."""
    slow, file = SlowToOpen(), tmp_path / "x.duckdb"

    async def main() -> None:
        opening = asyncio.ensure_future(recollect.aopen(f"duckdb:///{file}", embedder=slow))
        await asyncio.to_thread(slow.asked.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not slow.let_go.is_set()

    asyncio.run(main())
    slow.let_go.set()
    join_closing()
    script = f"import recollect; recollect.open('duckdb:///{file}', embedder='hash').close()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_loop_that_ends_early_leaves_what_was_begun_to_end(tmp_path: Path, embedder: HeldEmbedder) -> None:
    kept: list[AsyncRecollect] = []

    async def begin() -> None:
        kept.append(await recollect.aopen(tmp_path / "x.db", embedder=embedder))
        asyncio.get_running_loop().create_task(kept[0].remember(f"Of the first loop, {HELD}"))
        await waiting(embedder)  # and the loop ends, which cancels the task

    async def go_on() -> None:
        embedder.let_go.set()
        await kept[0].aclose()

    asyncio.run(begin())
    asyncio.run(go_on())
    assert texts_in(tmp_path / "x.db") == [f"Of the first loop, {HELD}"]


def test_several_loops_one_after_another_and_at_once(tmp_path: Path) -> None:
    mem = asyncio.run(_awaited(recollect.aopen(tmp_path / "x.db", embedder="hash")))
    for number in range(3):
        asyncio.run(mem.remember(f"Loop number {number}"))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: asyncio.run(mem.remember(f"A loop in thread {number}")), range(3)))
    assert asyncio.run(mem.stats()).memories == 6
    asyncio.run(mem.aclose())


async def _awaited(opening: Any) -> Any:
    return await opening


def test_closing_twice_and_using_it_afterwards(tmp_path: Path) -> None:
    async def main() -> None:
        mem = await recollect.aopen(tmp_path / "x.db", embedder="hash")
        acme = await mem.within("acme")
        await asyncio.gather(mem.aclose(), mem.close())
        await mem.aclose()
        for late in (mem.recall("late"), mem.run.list(), mem.call("stats"), mem.within("b"), acme.remember("late")):
            with pytest.raises(Closed, match="closed") as caught:
                await late
            assert caught.value.remedy == "open it again"

    asyncio.run(main())
    join_closing()
    assert not [one.name for one in threading.enumerate() if one.name.startswith("recollect-async")]


def test_closing_that_is_cancelled_goes_on_and_can_be_waited_for(tmp_path: Path, embedder: HeldEmbedder) -> None:
    async def main() -> None:
        mem = await recollect.aopen(tmp_path / "x.db", embedder=embedder)
        task = asyncio.create_task(mem.remember(f"Before it closes, {HELD}"))
        await waiting(embedder)
        closing = asyncio.create_task(mem.aclose())
        await ticks()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(Closed):
            await mem.stats()
        embedder.let_go.set()
        await mem.aclose()
        assert task.done() or await task

    asyncio.run(main())
    assert texts_in(tmp_path / "x.db") == [f"Before it closes, {HELD}"]


def test_errors_are_those_of_the_synchronous_client(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(InvalidSettings):
            await recollect.aopen(tmp_path / "x.db", colour="red")
        with pytest.raises(NotFound):
            await recollect.aopen(tmp_path / "absent.db", create=False)
        with pytest.raises(NotFound):
            async with recollect.aopen(tmp_path / "absent.db", create=False):
                raise AssertionError("it was opened")
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as opened:
            mem: Any = opened  # a type checker would find some of these
            with pytest.raises(NotFound):
                await mem.show("nothing")
            with pytest.raises(InvalidInput, match="positional arguments"):
                await mem.remember("a", "b")
            with pytest.raises(InvalidInput, match="no operation"):
                await mem.call("fly")
            with pytest.raises(InvalidInput, match="nothing to restrict"):
                await mem.restricted()
            with pytest.raises(AttributeError, match="did you mean remember"):
                _ = mem.rememberr
            with pytest.raises(AttributeError, match="did you mean show"):
                _ = mem.run.get
            with pytest.raises(TypeError, match="async with"), mem:
                pass

    asyncio.run(main())


def test_what_is_forgotten_to_be_awaited_says_so(tmp_path: Path) -> None:
    opening = recollect.aopen(tmp_path / "x.db", embedder="hash")
    with pytest.raises(AttributeError, match="await it first"):
        opening.remember("too early")  # type: ignore[attr-defined]
    assert not hasattr(opening, "_anything")
    assert not list(tmp_path.iterdir())

    async def main() -> None:
        async with opening:
            with pytest.raises(RuntimeError, match="awaited before"):
                await opening

    asyncio.run(main())


def test_another_organization_and_what_is_restricted(tmp_path: Path) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            acme = await mem.within("acme", actor="bob")
            assert (acme.organization, mem.organization) == ("acme", "default")
            receipt = await acme.remember("acme's own")
            assert (await mem.stats()).memories == 0
            await mem.user.add("Alice", id="alice")
            hers = await mem.restricted(user="alice")
            assert (await mem.show((await hers.remember("Alice's own")).id)).fields["user_id"] == "alice"
            await asyncio.gather(acme.aclose(), hers.close())  # not theirs to close
            again = await mem.within("acme")
            assert (await again.show(receipt.id)).fields["created_by"] == "bob"

    asyncio.run(main())


def test_context_variables_are_carried_over(tmp_path: Path) -> None:
    asked: ContextVar[str] = ContextVar("asked", default="nobody")
    seen = set()

    class Listening(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            seen.add((texts[0], asked.get()))
            return super().embed(texts)

    async def remember(mem: AsyncRecollect, name: str) -> None:
        asked.set(name)
        await mem.remember(f"Asked by {name}")

    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder=Listening(), background=False) as mem:
            await asyncio.gather(*(remember(mem, name) for name in ("alice", "bob", "carol")))

    asyncio.run(main())
    assert {(f"Asked by {name}", name) for name in ("alice", "bob", "carol")} <= seen


def test_progress_is_told_by_the_loop(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    def progress(done: int, total: int) -> None:
        assert asyncio.get_running_loop().is_running()
        told.append((threading.current_thread().name, done))

    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            by_method: Any = mem.forget_many  # its stub leaves progress to `call`, as the other client's does
            for forget in (by_method, partial(mem.call, "forget_many")):
                await mem.remember_many([{"content": f"Number {number}", "tags": ["old"]} for number in range(5)])
                before = len(told)
                assert (await forget(tags=["old"], progress=progress)).changed == 5
                assert len(told) > before

    asyncio.run(main())
    assert {name for name, _ in told} == {threading.current_thread().name}


def test_it_is_one_thing_for_copies_and_cannot_be_pickled(tmp_path: Path) -> None:
    async def main() -> None:
        async with recollect.aopen(tmp_path / "x.db", embedder="hash") as mem:
            assert copy.copy(mem) is mem
            assert copy.deepcopy({"mem": mem})["mem"] is mem
            assert repr(mem) == "<AsyncRecollect sqlite organization='default'>"
            assert "limit" in inspect.signature(mem.recall).parameters
            for whole in (mem, mem.run):
                with pytest.raises(TypeError, match="open it again"):
                    pickle.dumps(whole)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork_it_says_so_and_does_not_wait_for_ever(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, recollect
async def opened():
    return await recollect.aopen({str(tmp_path / "x.db")!r}, embedder="hash", background=False, threads=1)
mem = asyncio.run(opened())
child = os.fork()
if child == 0:
    try:
        asyncio.run(mem.stats())
    except recollect.errors.Closed as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), asyncio.run(mem.stats()).memories)
asyncio.run(mem.aclose())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["7", "0"]


def test_a_service_is_asked_in_the_same_way(tmp_path: Path) -> None:
    async def main(url: str, key: str) -> None:
        async with recollect.aconnect(url, key) as mem:
            written = await asyncio.gather(*(mem.remember(f"Over the wire {number}") for number in range(20)))
            assert len({one.id for one in written}) == 20
            assert [hit.id for hit in await mem.recall("over the wire 7", limit=1)] == [written[7].id]
            assert len(await mem.run.list()) == 0
            with pytest.raises(NotFound):
                await mem.show("nothing")
            with pytest.raises(InvalidInput, match="one organization"):
                await mem.within("other")
        await mem.aclose()
        with pytest.raises(Closed):
            await mem.stats()

    with served(tmp_path) as (url, key):
        asyncio.run(main(url, key))
    with pytest.raises(Unavailable):
        asyncio.run(main(url, key))
    with pytest.raises(InvalidInput, match="address of the service"):
        asyncio.run(_awaited(recollect.aconnect("ftp://nowhere", "key")))


def test_dotted_names_lead_to_the_methods_of_the_synchronous_client(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        assert all(callable(attrgetter(name)(mem)) for name in OPERATIONS)
