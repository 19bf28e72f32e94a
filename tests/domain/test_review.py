"""The order of the review inbox, without a store."""

from __future__ import annotations

from recollect.domain.review import REASONS, Signals, reasons, urgency


def names(signals: Signals) -> list[str]:
    return [reason.name for reason in reasons(signals)]


def test_use_risk_and_evidence_decide_and_are_said() -> None:
    nothing = Signals()
    ordered = [
        Signals(uses=40, contradictions=1, citations={"holds": 2}),
        Signals(contradictions=1, dependents=3),
        Signals(uses=3, citations={"holds": 1}),
        Signals(priority=9, citations={"claimed": 1}),
        Signals(citations={"unchecked": 1}),
        nothing,
    ]
    found = [urgency(reasons(one)) for one in ordered]
    assert found == sorted(set(found), reverse=True)
    assert names(nothing) == ["uncited"]
    assert [reason.words for reason in reasons(ordered[0])] == [
        "used 40 times",
        "contradiction with 1 memory",
        "2 citations hold",
    ]
    assert [reason.words for reason in reasons(Signals(dependents=2, citations={"broken": 1, "claimed": 1}))] == [
        "1 citation no longer holds",
        "2 memories rest on it",
        "1 citation not proven yet",
    ]
    everything = Signals(1, 10, 1, 1, {"broken": 1, "holds": 1})
    told = {*names(everything), *names(nothing), *names(Signals(citations={"claimed": 1}))}
    assert told == set(REASONS)


def test_much_use_does_not_outweigh_everything() -> None:
    assert urgency(reasons(Signals(uses=10**9))) < urgency(reasons(Signals(uses=100, contradictions=1)))
