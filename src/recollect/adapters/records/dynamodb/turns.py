"""The writers of one tenant take turns, and in one process those who wait go together.

The head is moved once for each transaction, whoever makes it, over the network: some tens of times a second. So whoever
has the turn takes along what others of the same process wait to write, as far as it fits into one TransactWriteItems.
Each is applied to the plan after the one before, as if that had been committed; one that is refused leaves nothing
behind and is told so by itself. What deletes goes alone: it may read and write much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.dynamodb.client import pauses
from recollect.adapters.records.dynamodb.keys import HOURS, RARE, TALLIED, entry_fields
from recollect.adapters.records.dynamodb.log import MOST_WRITES, TenantLog
from recollect.adapters.records.dynamodb.transaction import TooMuchTogether, TransactionPlan
from recollect.domain.record import Record
from recollect.errors import StoreBusy, Unavailable
from recollect.ports.records import Scope
from recollect.ports.steps import Committed, Delete, DeleteWhere, Insert, Put, Step, Touch, Update

Codecs = Callable[[type[Record]], Codec]


@dataclass(eq=False)
class WaitingWrite:
    """What one caller wants to be written, and what came of it."""

    scope: Scope
    steps: Sequence[Step]
    outcome: Committed | Exception | None = None

    def result(self) -> Committed:
        if isinstance(self.outcome, Committed):
            return self.outcome
        assert self.outcome is not None
        raise self.outcome

    def goes_with_others(self) -> bool:
        return not any(isinstance(step, Delete | DeleteWhere) for step in self.steps)

    def size(self) -> int:
        """About how many items it writes."""
        written = (step.record for step in self.steps if isinstance(step, Insert | Update | Put))
        return sum(map(_items_of, written)) + sum(isinstance(step, Touch) for step in self.steps)


def transact(tenant: TenantLog, codec: Codecs, scope: Scope, steps: Sequence[Step]) -> Committed:
    mine = WaitingWrite(scope, steps)
    tenant.waiting.append(mine)
    try:
        with tenant.writing:
            while mine.outcome is None:
                _commit(tenant, codec, _next_together(tenant))
    except BaseException:
        with suppress(ValueError):  # nobody else is to write what was given up here
            tenant.waiting.remove(mine)
        raise
    return mine.result()


def _next_together(tenant: TenantLog) -> list[WaitingWrite]:
    """Those who go next, in the order in which they came. Only who has the turn takes from the queue."""
    group = [tenant.waiting.popleft()]
    room = MOST_WRITES - 1 - group[0].size()  # the log is one of them
    while tenant.waiting and group[0].goes_with_others():
        following = tenant.waiting[0]
        room -= following.size()
        if room < 0 or not following.goes_with_others():
            break
        group.append(tenant.waiting.popleft())
    return group


def _commit(tenant: TenantLog, codec: Codecs, group: list[WaitingWrite]) -> None:
    """Gives each of the group its outcome, or puts it back to wait."""
    try:
        _settle(tenant, codec, group)
    except Exception as failure:  # noqa: BLE001 - it is raised where it belongs, by `result`
        _tell(tenant, group, failure)
    except BaseException:
        unknown = Unavailable("the transaction was interrupted: it may have happened", remedy="look whether it did")
        _tell(tenant, group, unknown)
        raise


def _tell(tenant: TenantLog, group: Sequence[WaitingWrite], failure: Exception) -> None:
    for one in group:
        if one.outcome is None and one not in tenant.waiting:
            one.outcome = failure


def _settle(tenant: TenantLog, codec: Codecs, group: list[WaitingWrite]) -> None:
    plan = TransactionPlan(tenant, codec)
    for pause in pauses(60):
        try:
            outcomes = _planned(plan, group)
        except Exception as failure:  # of one of them: each is to fail by itself
            if len(group) == 1:
                raise
            group = _shortened(tenant, group, failure.share if isinstance(failure, TooMuchTogether) else 0)
            continue
        refused = sum(isinstance(one, Exception) for one in outcomes)
        if refused and not plan.is_final():
            continue
        committed = 0 if refused == len(group) else plan.commit()
        if committed is not None:
            for one, outcome in zip(group, outcomes, strict=True):
                one.outcome = outcome
            return
        pause()
    raise StoreBusy("other writers of this organization were faster every time", remedy="try again later")


def _planned(plan: TransactionPlan, group: Sequence[WaitingWrite]) -> list[Committed | Exception]:
    plan.begin([step for one in group for step in one.steps])
    outcomes = [_applied(plan, one) for one in group]
    plan.prepare(is_shared=len(group) > 1)
    return outcomes


def _applied(plan: TransactionPlan, one: WaitingWrite) -> Committed | Exception:
    try:
        return plan.apply(one.scope, one.steps)
    except Exception as error:  # noqa: BLE001 - so that it is not taken for that of another
        return error


def _shortened(tenant: TenantLog, group: list[WaitingWrite], share: float) -> list[WaitingWrite]:
    """As many as fit; the others wait on, before those who came later."""
    kept = min(len(group) - 1, max(1, int(len(group) * share)))
    tenant.waiting.extendleft(reversed(group[kept:]))
    return group[:kept]


def _items_of(record: Record) -> int:
    """The record, its entries, its guards and what counts it."""
    kind, table = type(record), record.shape.table
    filled = sum(getattr(record, name) not in (None, RARE.get((table, name))) for name in entry_fields(kind))
    counted = sum(getattr(record, name) is not None for name in TALLIED.get(table, ())) + (table in HOURS)
    return 1 + len(record.shape.unique) + filled + counted
