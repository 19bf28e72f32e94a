"""What bench/year.py measures of a loaded year, each with the clock and the processor of this process.

Reading comes first, what changes the store last. PostgreSQL works in processes of its own: their time is in
`server_cpu_ms`, and in `cpu_seconds` together with ours. Memory is that of a process that loaded nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import recollect
from recollect.adapters.vectors.embedded.quantization import code_width
from recollect.domain.memory import LONG_TERM, space_name
from scale import bandwidth, memory
from shared import disk_bytes, summary, sync_ms, timed
from year_data import DAYS, MODEL, Asked, Year

QUESTIONS = 100
LIMIT = 10
SECONDS = 30.0  # the most that the calls of one operation may take
FORGOTTEN, TAKEN = 60, 100  # memories that measuring forgets, and all that it takes away but for the month
ONCE = ("prune of a month",)
LATELY = {"hour": 1 / 24, "day": 1.0, "week": 7.0}  # in days
PAGES = (
    "",
    "/search?q={text}",
    "/memories/{memory}",
    "/sessions",
    "/sessions/{session}",
    "/audit",
    "/review",
    "/users",
)
Result = dict[str, Any]


class Measures:
    def __init__(
        self,
        address: str,
        store: str,
        folder: Path,
        year: Year,
        asked: Sequence[tuple[str, str]],
        embedder: Asked,
        turn: int = 0,
    ) -> None:
        """`turn`: how often it was measured before; what was forgotten and erased then is gone."""
        self._address, self._store, self._folder = address, store, folder
        self._year, self._asked, self._embedder = year, asked, embedder
        self._opened: Any = None
        self._newest = year.memories - 1 - turn * TAKEN

    @property
    def mem(self) -> Any:
        if self._opened is None:
            self._opened = recollect.open(self._address, embedder=self._embedder)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def steps(self) -> Iterator[tuple[str, Callable[[], Result]]]:
        yield "floors", self._floors
        yield "index of the vectors", self._index
        yield "open and first recall", self._first
        yield "recall, one user's", lambda: self._calls(lambda u, q: self.mem.recall(q, user=u, limit=LIMIT))
        yield "recall, everybody's", lambda: self._calls(lambda u, q: self.mem.recall(q, limit=LIMIT))
        lately = {f"last {name}": self._year.begun + timedelta(days=DAYS - days) for name, days in LATELY.items()}
        for name, since in lately.items():
            yield f"recall, of the {name}", partial(self._since, since)
        yield "recall by meaning, one user's", lambda: self._meaning(True)
        yield "recall by meaning, everybody's", lambda: self._meaning(False)
        yield "vector index alone, everybody's", lambda: self._calls(self._nearest)
        yield "memory after recalls", memory
        yield "show", lambda: self._calls(lambda u, q: self.mem.show(self._some(q)))
        yield "list, one user's", lambda: self._calls(lambda u, q: self.mem.list(user=u), 50)
        yield "list, everybody's", lambda: self._calls(lambda u, q: self.mem.list(), 10)
        yield "list, everybody's, as it happened", lambda: self._calls(lambda u, q: self.mem.list(order="happened"), 10)
        yield "list, of the last day", lambda: self._calls(lambda u, q: self.mem.list(since=lately["last day"]), 10)
        yield "log", lambda: self._calls(lambda u, q: self.mem.log(limit=50), 50)
        yield "stats", lambda: self._calls(lambda u, q: self.mem.stats(), 5)
        yield "activity", lambda: self._calls(lambda u, q: self.mem.activity(), 5)
        for page in PAGES:
            yield f"console page {page or '/'}", partial(self._page, page)
        yield "add", lambda: self._calls(lambda u, q: self.mem.remember(f"{q} {time.time_ns()}", user=u), 100)
        yield "revise", lambda: self._calls(lambda u, q: self.mem.revise(self._some(q), importance=1.5), 50)
        yield "forget", self._forget
        yield "disk", self._disk
        yield "backup", self._backup
        yield "verify", self._verify
        yield "erase", self._erase
        yield "prune of a month", self._prune
        yield "memory at the end", memory

    # -- each --------------------------------------------------------------------------------------------------------

    def _calls(self, call: Callable[[str, str], Any], count: int = QUESTIONS) -> Result:
        """Medians and tails of some calls, the first being left out: it fills caches."""
        call(*self._asked[0])
        cpu, theirs = time.process_time(), self._server_seconds()
        spent = timed([partial(call, *one) for one in self._asked[:count]], SECONDS)
        found = summary(spent, time.process_time() - cpu)
        if self._store == "sqlite":
            return found
        return found | {"server_cpu_ms": float(f"{1000 * (self._server_seconds() - theirs) / len(spent):.4g}")}

    def _server_seconds(self) -> float:
        """Of PostgreSQL's processes together; none for SQLite, which has none."""
        if self._store == "sqlite":
            return 0.0
        from kept_postgres import processor_seconds

        return processor_seconds(self._folder / "server")

    def _once(self, work: Callable[[], Any]) -> Result:
        wall, cpu, theirs = time.perf_counter(), time.process_time(), self._server_seconds()
        work()
        return {
            "seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(time.process_time() - cpu + self._server_seconds() - theirs, 2),
            **memory(),
        }

    def _some(self, text: str) -> str:
        """A memory that is drawn by the text of a question: not of the first month, which is pruned."""
        left = self._year.memories - self._year.month
        return self._year.key(self._year.month + hash_of(text) % left)

    def _floors(self) -> Result:
        """What no recall and no add can be faster than here: codes read once from memory, one small write synced."""
        speed = bandwidth()
        codes = self._year.vectors * code_width(self._year.dimensions)
        return {
            "codes_ms": round(codes / speed * 1000, 3),
            "sync_ms": sync_ms(self._folder)["p50_ms"],
            "bandwidth_gb_per_second": round(speed / 1e9, 1),
        }

    def _index(self) -> Result:
        return self._once(self.mem._core.vectors.refresh)

    def _first(self) -> Result:
        self.close()
        user, text = self._asked[0]
        return self._once(lambda: self.mem.recall(text, user=user, limit=LIMIT))

    def _since(self, since: datetime) -> Result:
        return self._calls(lambda user, text: self.mem.recall(text, since=since, limit=LIMIT), 30)

    def _meaning(self, scoped: bool) -> Result:
        return self._calls(
            lambda user, text: self.mem.recall(text, limit=LIMIT, by="meaning", **({"user": user} if scoped else {}))
        )

    def _nearest(self, user: str, text: str) -> Any:
        vector = self._embedder.embed_query(text)
        space = space_name(LONG_TERM, MODEL)
        return self.mem._core.vectors.search(self.mem.organization, space, vector, LIMIT, None)

    def _page(self, page: str) -> Result:
        from starlette.testclient import TestClient

        from console_pages import with_key
        from recollect.domain.access import PERMISSIONS
        from recollect.interfaces.serve import application
        from recollect.settings import Settings

        settings = Settings(server={"upkeep_seconds": 1e6, "rate_per_minute": 10**9})
        with TestClient(application(self.mem._core, settings), "http://127.0.0.1", follow_redirects=False) as client:
            with_key(client, self.mem, set(PERMISSIONS))

            def ask(user: str, text: str) -> None:
                place = self._year.month + hash_of(text) % 1000
                known = {"memory": self._year.key(place), "session": self._year.session(place)}
                answer = client.get("/console" + page.format(text=text.replace(" ", "+"), **known))
                assert answer.status_code == 200, f"{page}: {answer.status_code}"

            return self._calls(ask, 5)

    def _forget(self) -> Result:
        """The last ones, one by one."""
        ids = (self._year.key(self._newest - number) for number in range(TAKEN))
        return self._calls(lambda user, text: self.mem.forget(next(ids)), 50)

    def _erase(self) -> Result:
        """Further ones, each with its words and its vector out of every file when the call returns."""
        ids = (self._year.key(self._newest - FORGOTTEN - number) for number in range(TAKEN))
        return self._calls(lambda user, text: self.mem.erase(next(ids)), 5)

    def _disk(self) -> Result:
        if self._store == "sqlite":
            index = disk_bytes(self._folder / "year.db.index")
            whole = sum(path.stat().st_size for path in self._folder.glob("year.db*") if path.is_file())
        else:
            from kept_postgres import database_bytes

            whole, index = database_bytes(self._address), 0
        return {
            "store_gb": _gb(whole),
            "index_gb": _gb(index),
            "bytes_a_memory": round((whole + index) / self._year.memories),
        }

    def _backup(self) -> Result:
        target = self._folder / "backups"
        shutil.rmtree(target, ignore_errors=True)
        try:
            found = self._once(lambda: self.mem.backup(f"{target}/", verify=False))
            return found | {"gb": _gb(disk_bytes(target))}
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _verify(self) -> Result:
        problems: list[Any] = []
        found = self._once(lambda: problems.extend(self.mem.verify().problems))
        return found | {"problems": len(problems), "said": [one.what for one in problems[:3]]}

    def _prune(self) -> Result:
        """What the first month of the year holds, as it stands in the store; forgotten, so that it can be restored."""
        gone: list[str] = []
        days = DAYS * 11 / 12
        found = self._once(lambda: gone.extend(self.mem.prune(older_than_days=days).forgotten))
        return found | {"memories": len(gone)}


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(place * ord(letter) for place, letter in enumerate(text, 1)) * 2_654_435_761 % 2**32


def _gb(count: int) -> float:
    return round(count / 1e9, 3)
