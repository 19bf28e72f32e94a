"""Times without a zone are meant where whoever asks lives, in and out; what is stored and moved is in UTC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient

import recollect
from counting import store_calls
from recollect.catalogue import OPERATIONS, validated
from recollect.domain.memory import Memory
from recollect.errors import InvalidInput
from recollect.interfaces.cli.main import run
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.services.times import RequestTimeZone
from recollect.settings import Settings

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["Europe/Berlin", "Asia/Bangkok", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/St_Johns", "UTC"]


def opened(zone: str, store: Any = "memory://") -> Any:
    return recollect.open(store, embedder="hash", timezone=zone)


@pytest.fixture
def berlin() -> Iterator[Any]:
    with opened("Europe/Berlin") as mem:
        yield mem


def found(mem: Any, **narrowed: Any) -> set[str]:
    return {hit.text for hit in mem.recall("tea", limit=50, **narrowed).hits}


@pytest.mark.parametrize("zone", ZONES)
def test_what_is_shown_on_a_day_is_found_since_and_until_that_day(zone: str) -> None:
    with opened(zone) as mem:
        for hour in (-1, 0, 12, 23, 24):
            at = datetime(2025, 5, 9, tzinfo=ZoneInfo(zone)) + timedelta(hours=hour)
            mem.remember(f"tea at {hour}", at=at)
        for line in str(mem.context("tea", tokens=4000)).split("<memory")[1:]:
            day = line.split("when=")[1][:10]
            text = line.split("\n")[2].strip()
            assert text in found(mem, since=day), (text, day)
            assert text in found(mem, until=day), (text, day)
            assert text in found(mem, since=date.fromisoformat(day), until=date.fromisoformat(day))
        on_the_day = {"tea at 0", "tea at 12", "tea at 23"}
        assert found(mem, since="2025-05-09", until="2025-05-09") == on_the_day
        assert {one.text for one in mem.list(since="2025-05-09", until=date(2025, 5, 9)).memories} == on_the_day
        assert found(mem, until="2025-05-09T00:00") == {"tea at -1"}
        assert found(mem, until=datetime(2025, 5, 9)) == {"tea at -1"}  # a time, though it is midnight
        for line in mem.list().memories:
            at = datetime.fromisoformat(line.occurred_at)
            assert at.utcoffset() == ZoneInfo(zone).utcoffset(at.replace(tzinfo=None))


def test_naive_times_are_in_the_zone_and_stored_in_utc(berlin: Any) -> None:
    id = berlin.remember("tea", at="2025-05-09 12:00", valid_from="2025-05-09", expires_at="2099-05-09").id
    stored = berlin._core.store.get(berlin._scope, Memory, id)
    assert stored.occurred_at == datetime(2025, 5, 9, 10, tzinfo=UTC)
    assert stored.valid_from == datetime(2025, 5, 8, 22, tzinfo=UTC)
    assert stored.expires_at == datetime(2099, 5, 9, 22, tzinfo=UTC)  # the day counts whole
    assert stored.occurred_at.tzinfo is UTC
    fields = berlin.show(id).fields
    assert fields["occurred_at"] == "2025-05-09T12:00:00+02:00"
    assert berlin.recall("tea").hits[0].occurred_at.isoformat() == "2025-05-09T12:00:00+02:00"
    assert berlin.remember(
        "tea", at=datetime(2025, 5, 9, 12), valid_from="2025-05-09", expires_at="2099-05-09"
    ).duplicate
    given = {"valid_from": datetime(2025, 5, 8, 22, tzinfo=UTC), "expires_at": "2099-05-10T00:00"}
    assert berlin.remember("tea", at="2025-05-09T10:00Z", **given).duplicate


def test_what_was_shown_can_be_given_back(berlin: Any) -> None:
    """No time is turned twice."""
    id = berlin.remember("tea", at="2025-05-09T12:00").id
    at = berlin.show(id).fields["occurred_at"]
    assert berlin.remember("tea", at=at).duplicate
    hit = berlin.recall("tea").hits[0]
    assert found(berlin, since=hit.occurred_at) == {"tea"}
    assert found(berlin, until=hit.occurred_at) == set()
    berlin.revise(id, at=hit.occurred_at + timedelta(hours=1))
    assert berlin.show(id).fields["occurred_at"] == "2025-05-09T13:00:00+02:00"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2025-03-30T01:59", "2025-03-30T00:59Z"),
        ("2025-03-30T02:30", "2025-03-30T01:30Z"),  # skipped: as long after the last that was there
        ("2025-03-30T03:00", "2025-03-30T01:00Z"),
        ("2025-10-26T02:30", "2025-10-26T00:30Z"),  # comes twice: the first is meant
        ("2025-10-26T02:30+01:00", "2025-10-26T01:30Z"),
    ],
)
def test_hours_that_clocks_skip_or_repeat(berlin: Any, said: str, meant: str) -> None:
    id = berlin.remember("tea", at=said).id
    assert berlin._core.store.get(berlin._scope, Memory, id).occurred_at == datetime.fromisoformat(meant)


def test_a_day_that_begins_at_one_is_whole() -> None:
    with opened("Africa/Cairo") as mem:  # on 25 April 2025 clocks went from midnight to one
        mem.remember("tea late", at="2025-04-24T22:30Z")
        mem.remember("tea before", at="2025-04-24T21:30Z")
        assert found(mem, since="2025-04-25", until="2025-04-25") == {"tea late"}
        assert found(mem, until="2025-04-24") == {"tea before"}


def test_as_of_a_date_is_what_was_known_at_its_end(berlin: Any) -> None:
    berlin.remember("tea")
    today = datetime.now(BERLIN).date()
    assert found(berlin, as_of=today) == {"tea"}
    assert found(berlin, as_of=today - timedelta(days=1)) == set()


def test_the_user_who_asks_has_a_zone_of_their_own(berlin: Any) -> None:
    berlin.user.add("Ann", id="ann", timezone="Asia/Bangkok")
    berlin.user.add("Bob", id="bob")
    ann, bob = berlin.within(actor="ann"), berlin.within(actor="bob")
    id = ann.remember("tea", at="2025-05-09T12:00").id
    assert berlin._core.store.get(berlin._scope, Memory, id).occurred_at == datetime(2025, 5, 9, 5, tzinfo=UTC)
    shown = {one.timezone: one.show(id).fields["occurred_at"] for one in (ann, bob, berlin)}
    assert shown == {"Asia/Bangkok": "2025-05-09T12:00:00+07:00", "Europe/Berlin": "2025-05-09T07:00:00+02:00"}
    berlin.user.revise("ann", timezone="Pacific/Kiritimati")
    assert ann.show(id).fields["occurred_at"] == "2025-05-09T19:00:00+14:00"


def test_a_request_about_a_user_is_in_their_zone_where_nobody_in_particular_asks(berlin: Any) -> None:
    berlin.user.add("Ann", id="ann", timezone="Asia/Bangkok")
    [one, many] = [
        berlin.remember("tea", user="ann", at="2025-05-09T12:00").id,
        berlin.remember_many([{"content": "more tea", "at": "2025-05-09T12:00", "user": "ann"}]).receipts[0].id,
    ]
    for id in (one, many):
        assert berlin._core.store.get(berlin._scope, Memory, id).occurred_at == datetime(2025, 5, 9, 5, tzinfo=UTC)
    assert berlin.recall("tea", user="ann").hits[0].occurred_at.isoformat() == "2025-05-09T12:00:00+07:00"
    late = berlin.remember("late tea", user="ann", at="2025-05-09T00:30").id
    assert late in {hit.id for hit in berlin.recall("tea", user="ann", since="2025-05-09").hits}
    assert "when=2025-05-09" in str(berlin.context("late tea", user="ann", limit=1))
    assert berlin.recall("9 May 2025", user="ann", by="words").hits
    assert berlin._core.store.get(berlin._scope, Memory, late).moment == "9 May 2025"


def test_a_question_names_days_of_the_zone() -> None:
    with opened("Pacific/Kiritimati") as mem:
        mem.remember("said early", at="2025-05-09T01:00")
        mem.remember("said later", at="2025-05-16T01:00")
        hits = mem.recall("what was said on 9 May 2025").hits
        assert hits[0].text == "said early"
        assert hits[0].parts["date"] > hits[1].parts.get("date", 0)


def test_days_are_rolled_up_by_the_zone() -> None:
    with opened("Pacific/Kiritimati") as mem:
        for number, hour in enumerate((1, 23)):
            mem.session.add(f"s{number}", id=f"s{number}")
            mem.remember(f"The pump number {number} leaks.", session=f"s{number}", at=f"2025-05-09T{hour:02}:00")
        mem.summary.roll_up()
        days = mem.list(kinds=["summary"], levels=["day"]).memories
        assert len(days) == 1
        assert days[0].occurred_at.startswith("2025-05-09")


def test_exports_and_cursors_stay_in_utc(berlin: Any, tmp_path: Path) -> None:
    for number in range(3):
        berlin.remember(f"tea {number}", at="2025-05-09T12:00")
    berlin.export(str(tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert "+02:00" not in (tmp_path / "out.jsonl").read_text()
    assert any("2025-05-09T10:00:00" in json.dumps(line) for line in lines)
    first = berlin.list(limit=2)
    assert len(berlin.list(limit=2, after=first.next).memories) == 1
    with opened("UTC") as other:
        other.import_(str(tmp_path / "out.jsonl"))
        other.export(str(tmp_path / "again.jsonl"))
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_what_users_keep_in_json_is_not_touched(berlin: Any) -> None:
    told = {"created_at": "2025-05-09T10:00:00Z", "at": "2025-05-09T10:00:00+00:00"}
    id = berlin.remember("tea", metadata=told).id
    assert berlin.show(id).fields["metadata"] == told
    assert berlin.recall("tea").hits[0].metadata == told
    berlin.agent.add("Ada", id="ada", metadata=told)
    assert berlin.agent.list()[0].metadata == told
    assert berlin.agent.list()[0].created_at.isoformat().endswith(("+01:00", "+02:00"))


def test_times_outside_the_calendar_are_refused_readably(berlin: Any) -> None:
    for given in ("0001-01-01", "9999-12-31T23:59:59-12:00", "yesterday-ish", "2025-02-30"):
        with pytest.raises(InvalidInput, match="since"):
            berlin.recall("tea", since=given)
    with pytest.raises(InvalidInput, match="until"):
        berlin.recall("tea", until="9999-12-31T23:59:59-12:00")
    berlin.remember("first tea", at="0001-01-01T12:00Z")
    assert berlin.list().memories[0].occurred_at.startswith("0001-01-01")


def test_over_http_and_its_client_the_service_knows_whose_time_is_meant(berlin: Any) -> None:
    for name, zone in (("ann", "Asia/Bangkok"), ("bob", "UTC")):
        berlin.user.add(name, id=name, timezone=zone)
        berlin.user.revise(name, role="owner")
    keys = {name: berlin.key.add(name, scopes=["read", "write"], user=name).key for name in ("ann", "bob")}
    app = application(berlin._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1") as client:

        def asked(name: str, path: str, **body: Any) -> Any:
            answer = client.post(f"/v1{path}", json=body, headers={"authorization": f"Bearer {keys[name]}"})
            assert answer.status_code == 200, answer.text
            return answer.json()

        asked("ann", "/memories", content="tea", at="2025-05-09T00:30")
        assert asked("ann", "/recall", query="tea", since="2025-05-09")["hits"][0]["occurred_at"] == (
            "2025-05-09T00:30:00+07:00"
        )
        assert asked("bob", "/recall", query="tea", since="2025-05-09")["hits"] == []
        assert asked("bob", "/recall", query="tea", until="2025-05-08")["hits"][0]["occurred_at"] == (
            "2025-05-08T19:30:00+02:00"
        )


def test_a_client_hands_bare_times_on_as_they_were_given() -> None:
    fields = {"query": "tea", "since": "2025-05-09", "until": date(2025, 5, 9), "as_of": datetime(2025, 5, 9, 12)}
    request = validated(OPERATIONS["recall"], fields, RequestTimeZone())
    wire = request.model_dump(mode="json", include=set(fields))
    assert wire == {"query": "tea", "since": "2025-05-09", "until": "2025-05-09", "as_of": "2025-05-09T12:00:00"}
    many = {"memories": [{"content": "tea", "at": "2025-05-09"}]}
    sent = validated(OPERATIONS["remember_many"], many, RequestTimeZone()).model_dump(mode="json", exclude_unset=True)
    assert sent == many
    here: Any = validated(OPERATIONS["recall"], fields, RequestTimeZone(zone="Europe/Berlin"))
    assert here.since == datetime(2025, 5, 8, 22, tzinfo=UTC)
    assert here.until == datetime(2025, 5, 9, 22, tzinfo=UTC)


def test_on_the_command_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    monkeypatch.setenv("RECOLLECT_TIMEZONE", "Europe/Berlin")
    assert run(["remember", "tea", "--at", "2025-05-09T00:30"]) == 0
    capsys.readouterr()
    assert run(["list", "--since", "2025-05-09", "--until", "2025-05-09"]) == 0
    assert "2025-05-09 00:30" in capsys.readouterr().out
    assert run(["recall", "tea", "--until", "2025-05-08", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"] == []
    assert run(["recall", "tea", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["occurred_at"] == "2025-05-09T00:30:00+02:00"


def test_zones_are_not_read_again_for_every_request(berlin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    berlin.user.add("Ann", id="ann", timezone="Asia/Bangkok")
    reads: list[Any] = []
    get = berlin._core.store.get
    monkeypatch.setattr(berlin._core.store, "get", lambda *given, **more: reads.append(given) or get(*given, **more))
    for _ in range(5):
        berlin.recall("tea", user="ann")
    assert len(reads) == 1
    assert berlin._core.store.count(berlin._scope, Query(Memory)) == 0


def test_the_zones_of_many_users_are_read_in_one_go(berlin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store that is far away each would be waited for."""
    for number in range(20):
        berlin.user.add(f"User {number}", id=f"u{number}", timezone="Asia/Bangkok" if number % 2 else "UTC")
    seen = store_calls(berlin, monkeypatch)
    berlin.remember_many([{"content": f"tea {number}", "user": f"u{number % 20}"} for number in range(60)])
    assert "get" not in seen
    assert seen.count("select") <= 3, seen
    shown = {hit.user: hit.occurred_at.utcoffset() for n in (0, 1) for hit in berlin.recall("tea", user=f"u{n}").hits}
    assert shown["u1"] == timedelta(hours=7)
    assert shown["u0"] in (timedelta(hours=1), timedelta(hours=2))
