"""The console of a large store: what it counts once, and to whom it shows that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from console_pages import page, sign_in
from recollect.interfaces.http.kept_figures import FRESH_SECONDS, SHOWN_SECONDS, KeptFigures


class Counting:
    """Figures, how often they were counted, and a clock that is set."""

    def __init__(self, figures: int) -> None:
        self.figures, self.times, self.now = figures, 0, 1000.0
        self.threads = ThreadPoolExecutor(1)
        self.kept = KeptFigures(self.threads, lambda: self.now)

    def count(self) -> int:
        self.times += 1
        return self.figures

    def seen(self, key: str = "acme") -> tuple[int, float]:
        counted = self.kept.of(key, self.count, lambda figures: figures > 100)
        return counted.figures, counted.seconds_ago


def test_figures_of_a_small_store_are_counted_for_every_visit() -> None:
    small = Counting(100)
    assert [small.seen(), small.seen()] == [(100, 0), (100, 0)]
    assert small.times == 2


def test_figures_of_a_large_store_are_counted_once_and_for_each_scope() -> None:
    large = Counting(101)
    large.seen()
    large.now += FRESH_SECONDS
    assert large.seen() == (101, FRESH_SECONDS)
    assert large.times == 1
    large.seen("another organization")
    assert large.times == 2


def test_older_figures_are_shown_while_they_are_counted_anew() -> None:
    large = Counting(101)
    large.seen()
    large.now, large.figures = large.now + FRESH_SECONDS + 1, 102
    assert large.seen()[0] == 101
    large.threads.shutdown()
    assert large.seen() == (102, 0)
    assert large.times == 2


def test_what_nobody_looked_at_for_long_is_counted_at_once() -> None:
    large = Counting(101)
    large.seen()
    large.now, large.figures = large.now + SHOWN_SECONDS + 1, 102
    assert large.seen() == (102, 0)


def test_a_list_says_that_it_was_counted_only_so_far(mem: Any) -> None:
    mem.remember_many([{"content": f"note {number}"} for number in range(5)])
    for most, total, is_whole in ((4, 4, False), (5, 5, True), (9, 5, True)):
        shown = mem.list(limit=2, count_at_most=most)
        assert (shown.total, shown.is_whole) == (total, is_whole)
        following = mem.list(limit=2, count_at_most=most, after=shown.next)
        assert (following.total, following.is_whole) == (total, is_whole)
    assert mem.list(limit=2).total == 5


def test_the_page_of_backups_does_not_read_the_whole_store(console: Any, mem: Any) -> None:
    sign_in(console)
    assert "deletions whose traces are still on disk" in page(console, "/backups")
    names = {one.name for one in mem.doctor(parts=["pending", "backups"]).findings}
    assert "erasure" in names
    assert not names & {one.name for one in mem.doctor(parts=["health"]).findings}
