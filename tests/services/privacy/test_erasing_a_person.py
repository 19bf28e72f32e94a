"""A person is found, handed over and erased: what is theirs goes, what is others' stays, and a certificate says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect import app, cite
from recollect.catalogue import OPERATIONS, invoke
from recollect.domain.privacy import ErasureCertificate
from recollect.domain.record import RECORDS
from recollect.errors import Conflict, Denied, InvalidInput, NotFound, OnLegalHold
from recollect.ports.query import Query
from recollect.ports.records import Scope
from seeds import some


def household(mem: Any) -> None:
    """Ann and Bob: each with memories and messages, a project that they share, and a run in a session of Ann's."""
    mem.user.add("Ann Lee", id="ann-lee-1", email="ann@lee.example", profile_data={"phone": "555-0199"})
    mem.user.add("Bob", id="bob")
    mem.agent.add("Bee", id="bee")
    mem.project.add("House", id="house", owner="ann-lee-1")
    mem.session.add("Tea of Ann", id="session-of-ann-1", user="ann-lee-1", agent="bee", project="house")
    mem.session.add("Bob's", id="his", user="bob", project="house")
    mem.message.add("user", "I take oat milk in my tea", session="session-of-ann-1", user="ann-lee-1")
    mem.message.add("assistant", "Noted, oat milk it is", session="session-of-ann-1")
    mem.message.add("user", "I met Ann Lee at the harbour", session="his", user="bob")
    mem.remember("She likes oolong tea in the morning", user="ann-lee-1", id="memory-of-ann-1", tags=["tea"])
    mem.remember("Ann Lee lends me her ladder", user="bob", id="ladder")
    mem.remember("Bob likes coffee", user="bob", id="coffee")
    mem.remember("The gate was painted", id="gate", cites=[cite.user("ann-lee-1", "said so")])
    run = mem.run.start("Brew the oolong for the guests", agent="bee", session="session-of-ann-1").id
    fence = mem.run.claim("worker", id=run).fence
    mem.run.propose(run, fence, tool="kettle", arguments={"water": 2}, reasoning="to brew for the guests")
    mem.run.record(run, fence, summary="The kettle boiled for the guests")
    mem.item.put(["memories", "ann-lee-1"], "likes", value={"text": "oolong above all"})
    mem.checkpoint.put("session-of-ann-1", "1", body=b"state of the tea", items={"m": [b"one"]})


def by(mem: Any, actor: str) -> Any:
    return mem.within(actor=actor)


def counted(reply: Any) -> dict[tuple[str, str], int]:
    return {(one.relation, one.kind): one.count for one in reply.counts}


def test_everything_about_a_person_is_found(every: Any) -> None:
    household(every)
    by(every, "ann-lee-1").remember("The hinge squeaks", id="hinge")
    found = every.privacy.find(user="ann-lee-1")
    counts = counted(found)
    assert counts["own", "memory"] == 2  # hers, and what the run in her session remembered
    assert counts["own", "message"] == 2
    assert (
        counts["own", "run"] == counts["own", "step"] == counts["own", "checkpoint line"] == counts["own", "item"] == 1
    )
    assert counts["by", "memory"] == 1
    assert counts["about", "memory"] == 1
    assert counts["about", "message"] == 1
    assert counts["about", "citation"] == 1
    assert found.log_entries > 0
    assert found.name == "Ann Lee"
    [one] = every.privacy.find(user="ann-lee-1", kind="memory", relation="about")
    assert (one.id, one.title) == ("ladder", "Ann Lee lends me her ladder")


def test_pages_of_what_was_found_are_all_of_it(mem: Any) -> None:
    household(mem)
    whole = [(one.kind, one.id) for one in mem.privacy.find(user="ann-lee-1", limit=1000)]
    paged, after = [], None
    while True:
        page = mem.privacy.find(user="ann-lee-1", limit=3, after=after)
        paged += [(one.kind, one.id) for one in page]
        after = page.next
        if after is None:
            break
    assert paged == whole
    with pytest.raises(InvalidInput, match="next"):
        mem.privacy.find(user="ann-lee-1", after="x")


def test_erasing_takes_what_is_theirs_and_leaves_what_is_others(every: Any) -> None:
    household(every)
    reply = every.privacy.erase(user="ann-lee-1", requested_by="Ann Lee herself, by letter", reason="Article 17")
    assert reply.clean, reply.certificate["scan"]
    assert [hit.id for hit in every.recall("tea oolong", by="words").hits] == []
    assert every.recall("coffee").hits[0].id == "coffee"
    assert every.project.show("house").owner is None
    assert [one.id for one in every.session.list()] == ["his"]
    assert every.run.list().runs == []
    pseudonym = reply.certificate["subject"]["pseudonym"]
    assert every.show("ladder").text == f"{pseudonym} lends me her ladder"
    assert [one.text for one in every.message.list("his").messages] == [f"I met {pseudonym} at the harbour"]
    assert every.show("gate").citations[0].evidence["user_id"] == pseudonym
    assert every.verify().sound
    with pytest.raises(NotFound, match="nothing is stored"):
        every.privacy.erase(user="ann-lee-1")


def test_a_dry_run_says_what_would_go_and_changes_nothing(mem: Any) -> None:
    household(mem)
    told = mem.privacy.erase(user="ann-lee-1", dry_run=True)
    assert (told.dry_run, told.certificate) == (True, {})
    assert told.deleted["memory"] == 2
    assert told.unnamed["message"] == 1
    assert told.handed_over == {"project": 1}
    assert mem.show("memory-of-ann-1").text
    done = mem.privacy.erase(user="ann-lee-1")
    assert done.deleted == told.deleted
    assert mem.privacy.certificates()[0].certificate == done.certificate


@pytest.mark.parametrize(("choice", "left"), [("keep", "Ann Lee lends me her ladder"), ("delete", None)])
def test_what_others_say_of_them_is_treated_as_was_chosen(mem: Any, choice: str, left: str | None) -> None:
    household(mem)
    reply = mem.privacy.erase(user="ann-lee-1", mentions=choice)
    if left is None:
        with pytest.raises(NotFound):
            mem.show("ladder")
        assert reply.clean
    else:
        assert mem.show("ladder").text == left
        assert not reply.clean
        assert {"where": "this store", "what": "1 of memory that name the person, kept by choice"} in (
            reply.certificate["remains"]
        )
    assert mem.verify().sound


def test_what_they_wrote_for_all_stays_without_their_name_if_that_is_chosen(mem: Any) -> None:
    household(mem)
    by(mem, "ann-lee-1").remember("The hinge squeaks", id="hinge")
    mem.privacy.erase(user="ann-lee-1", authored="keep")
    stored = mem._core.store.get(mem._scope, RECORDS["memory"], "hinge")
    assert stored.created_by.startswith("erased-")
    assert mem.history("hinge").entries[0].text == "The hinge squeaks"


def test_what_is_shared_goes_to_the_one_who_is_named(mem: Any) -> None:
    household(mem)
    mem.privacy.erase(user="ann-lee-1", hand_over_to="bob")
    assert mem.project.show("house").owner == "bob"


def test_the_log_names_a_pseudonym_and_is_still_proven(every: Any) -> None:
    household(every)
    ann = by(every, "ann-lee-1")
    ann.recall("coffee")
    anchor = every.audit.seal().anchor
    ann.recall("tea")
    reply = every.privacy.erase(user="ann-lee-1")
    verdict = every.audit.verify(anchor)
    assert verdict.sound, verdict.problems
    assert verdict.pseudonymised
    log = [entry.model_dump_json() for entry in every.log(limit=1000)]
    assert not [entry for entry in log if "ann-lee-1" in entry or "memory-of-ann-1" in entry]
    assert [entry for entry in log if reply.certificate["subject"]["pseudonym"] in entry]
    assert reply.certificate["log"]["entries"] == reply.log_entries > 0
    theirs = [entry for entry in every.log(limit=1000) if (entry.actor or "").startswith("erased-")]
    assert theirs
    assert not [entry for entry in theirs if "sha256" in entry.model_dump_json()]  # a short text could be guessed
    assert every.audit.verify(reply.certificate["log"]["anchor"]).sound


def test_two_erasures_leave_one_log_that_is_proven(mem: Any) -> None:
    household(mem)
    by(mem, "ann-lee-1").recall("tea")
    by(mem, "bob").recall("tea")
    mem.audit.seal()
    mem.privacy.erase(user="ann-lee-1")
    mem.privacy.erase(user="bob")
    verdict = mem.audit.verify()
    assert verdict.sound, verdict.problems
    assert len(mem.privacy.certificates()) == 2


def test_a_certificate_is_genuine_or_not(mem: Any) -> None:
    household(mem)
    reply = mem.privacy.erase(user="ann-lee-1", requested_by="Ann Lee", reason="her letter")
    document = reply.certificate
    assert mem.privacy.verify(document["id"]).sound
    assert mem.privacy.verify(certificate=document).sound
    assert document["requested_by"] == document["subject"]["pseudonym"]
    forged = mem.privacy.verify(certificate={**document, "reason": "another"})
    assert {one.name for one in forged.checks if not one.sound} == {"signature", "store"}
    elsewhere = mem.within("other")
    verdict = elsewhere.privacy.verify(certificate=document)
    assert [one.sound for one in verdict.checks if one.name == "signature"] == [True]
    assert {one.name for one in verdict.checks if not one.sound} >= {"issuer", "store", "log"}
    with pytest.raises(InvalidInput, match="not a certificate"):
        mem.privacy.verify(certificate={"format": "x"})
    with pytest.raises(InvalidInput, match="either"):
        mem.privacy.verify()
    assert mem.privacy.certificates(user="ann-lee-1")[0].id == document["id"]
    assert mem.privacy.certificates().public_key == document["public_key"]


def test_an_export_is_all_of_it_and_can_be_read(mem: Any, tmp_path: Path) -> None:
    household(mem)
    desk = mem.workspace.add("bee", "desk").id
    by(mem, "ann-lee-1").workspace.write(desk, "notes/tea.md", "first flush\n")
    target = tmp_path / "handed over"
    reply = mem.privacy.export(str(target), user="ann-lee-1")
    names = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert {"README.md", "memory.md", "message.md", "run.md", "records.jsonl", "access-log.jsonl"} <= names
    assert [name for name in names if name.endswith("notes/tea.md")]
    assert "She likes oolong tea in the morning" in (target / "memory.md").read_text()
    lines = [json.loads(line) for line in (target / "records.jsonl").read_text().splitlines()]
    assert {line["table"] for line in lines} >= {"user", "memory", "message", "execution", "workspace_file"}
    assert reply.files == 1
    assert "password_hash" not in (target / "user.md").read_text()
    with pytest.raises(InvalidInput, match="not empty"):
        mem.privacy.export(str(target), user="ann-lee-1")
    with pytest.raises(NotFound):
        mem.privacy.export(str(tmp_path / "none"), user="nobody")


def test_an_export_has_the_files_that_were_uploaded_in_every_version(mem: Any, tmp_path: Path) -> None:
    mem.user.add("Ann Lee", id="ann-lee-1")
    for content in ("tea,cups\noolong,3\n", "tea,cups\noolong,4\n"):
        (tmp_path / "tea.csv").write_text(content)
        mem.source.add(tmp_path / "tea.csv", user="ann-lee-1")
    reply = mem.privacy.export(str(tmp_path / "handed over"), user="ann-lee-1")
    files = sorted((tmp_path / "handed over" / "files" / "sources").iterdir())
    assert [path.read_text() for path in files] == ["tea,cups\noolong,3\n", "tea,cups\noolong,4\n"]
    assert reply.files == 2


def test_stored_files_of_others_are_looked_through(mem: Any, tmp_path: Path) -> None:
    mem.user.add("Ann Leeway", id="ann-lee-1")
    mem.user.add("Bob", id="bob")
    (tmp_path / "guests.csv").write_text("name,cups\nAnn Leeway,3\nCy,2\n")
    mem.source.add(tmp_path / "guests.csv", user="bob")
    reply = mem.privacy.erase(user="ann-lee-1")
    found = [place["name"] for place in reply.certificate["scan"]["places"] if place["found"]]
    assert not reply.clean
    assert any(name.startswith("stored file") for name in found)


def test_nobody_erases_themselves_or_those_who_may_do_more(mem: Any) -> None:
    household(mem)
    with pytest.raises(Conflict, match="yourself"):
        by(mem, "ann-lee-1").privacy.erase(user="ann-lee-1")
    mem.user.revise("ann-lee-1", role="owner")
    scope = Scope(mem._scope.organization_id, "bob", frozenset({"read", "admin"}))
    with pytest.raises(Denied):
        invoke(OPERATIONS["privacy.erase"], mem._core, scope, {"user": "ann-lee-1"})


def test_another_organization_keeps_its_own_person_of_the_same_id(mem: Any) -> None:
    household(mem)
    other = mem.within("other")
    other.user.add("Ann Lee", id="ann-lee-1")
    other.remember("She likes oolong tea in the evening", user="ann-lee-1", id="theirs")
    mem.privacy.erase(user="ann-lee-1")
    assert other.show("theirs").text == "She likes oolong tea in the evening"
    assert len(other.privacy.certificates()) == 0


def test_names_are_found_in_scripts_without_spaces_and_not_within_words(mem: Any) -> None:
    mem.user.add("王芳", id="wangfang-7")
    mem.user.add("Bob", id="bob")
    mem.remember("昨天王芳说她喜欢喝茶", user="bob", id="said")
    mem.remember("The annual meeting is in May", user="bob", id="annual")
    mem.remember("她喜欢龙井", user="wangfang-7", id="tea")
    pseudonym = mem.privacy.erase(user="wangfang-7", also=["ann"]).certificate["subject"]["pseudonym"]
    assert mem.show("said").text == f"昨天{pseudonym}说她喜欢喝茶"
    assert mem.show("annual").text == "The annual meeting is in May"


def test_an_id_that_is_a_word_of_ours_changes_nothing_else(mem: Any) -> None:
    mem.user.add("User", id="user")
    mem.user.add("Bob", id="bob")
    mem.session.add("x", id="s", user="bob")
    mem.message.add("user", "every user likes tea", session="s", user="bob")
    mem.remember("facts", user="user", id="fact")
    mem.privacy.erase(user="user")
    [said] = mem.message.list("s").messages
    assert (said.role, said.text) == ("user", "every user likes tea")
    assert mem.verify().sound


def test_an_erasure_that_was_interrupted_is_finished_by_asking_again(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    household(mem)

    def broken(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("recollect.services.privacy.erase.scan", broken)
        with pytest.raises(MemoryError):
            mem.privacy.erase(user="ann-lee-1", reason="first")
    [running] = mem.privacy.certificates()
    assert (running.status, running.certificate) == ("running", {})
    reply = mem.privacy.erase(user="ann-lee-1", reason="second")
    assert reply.certificate["reason"] == "first"
    assert reply.deleted["memory"] == 2
    assert reply.clean, reply.certificate["scan"]
    [done] = mem.privacy.certificates()
    stored = mem._core.store.find(mem._scope, Query(ErasureCertificate)).records[0]
    assert (done.status, stored.work) == ("done", None)


def test_a_legal_hold_stops_an_erasure_and_keeps_the_words_of_others(mem: Any) -> None:
    household(mem)
    hold = mem.hold.place(user="ann-lee-1", reason="a lawsuit").id
    assert "legal hold" in mem.privacy.erase(user="ann-lee-1", dry_run=True).refused
    with pytest.raises(OnLegalHold):
        mem.privacy.erase(user="ann-lee-1")
    assert mem.show("memory-of-ann-1").text
    mem.hold.release(hold)
    mem.hold.place(user="bob", reason="another")
    reply = mem.privacy.erase(user="ann-lee-1")
    assert mem.show("ladder").text == "Ann Lee lends me her ladder"
    assert not reply.clean
    assert "legal hold" in reply.certificate["remains"][0]["what"]


def test_sessions_in_cold_storage_are_erased_too(mem: Any, tmp_path: Path) -> None:
    mem.user.add("Ann Lee", id="ann-lee-1")
    mem.user.add("Bob", id="bob")
    for session, user in (("session-of-ann-1", "ann-lee-1"), ("his", "bob")):
        mem.session.add("talk", id=session, user=user)
        mem.message.add("user", "I take oat milk in my tea", session=session, user="ann-lee-1")
    mem.message.add("user", "And I take none", session="his", user="bob")
    mem.audit.seal()
    for session in ("session-of-ann-1", "his"):
        mem.cold.store(session=session, to=str(tmp_path / "cold"))
    reply = mem.privacy.erase(user="ann-lee-1")
    assert reply.clean, reply.certificate["scan"]
    assert reply.deleted["message"] == 2
    assert [one.text for one in mem.message.list("his").messages] == ["And I take none"]
    assert [one.name for one in (tmp_path / "cold").rglob("*.parquet")] == []
    verdict = mem.audit.verify()
    assert verdict.sound, verdict.problems


@pytest.mark.parametrize("target", ["sqlite", "duckdb"])
def test_a_copy_that_is_brought_up_to_date_follows_an_erasure(target: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    source, copied = EVERY_STORE["sqlite"](tmp_path / "a"), EVERY_STORE[target](tmp_path / "b")
    with recollect.open(source, embedder="hash") as mem:
        household(mem)
    app.copy(source, copied)
    with recollect.open(source, embedder="hash") as mem:
        mem.privacy.erase(user="ann-lee-1")
    app.copy(source, copied)
    with recollect.open(copied, embedder="hash") as mem:
        with pytest.raises(NotFound):
            mem.show("memory-of-ann-1")
        assert mem.show("coffee").text == "Bob likes coffee"


def test_the_certificate_lists_backups_with_what_is_still_in_them(mem: Any, tmp_path: Path) -> None:
    mem.backup(str(tmp_path / "before/"))
    household(mem)
    mem.backup(str(tmp_path / "between/"))
    told = mem.privacy.erase(user="ann-lee-1")
    backups = [one for one in told.certificate["remains"] if "backup" in one["what"]]
    assert len(backups) == 1
    assert "between" in backups[0]["where"]
    assert backups[0]["what"] == f"a backup with {sum(told.deleted.values())} of the deleted records"


@pytest.mark.parametrize("kind", ["sqlite", some(1, ["duckdb", "postgres", "dynamodb"], "restored erasures")[0]])
def test_a_backup_from_before_an_erasure_has_the_person_and_restoring_it_says_whom_to_erase_again(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    address, backups = EVERY_STORE[kind](tmp_path / "store"), str(tmp_path / "backups/")
    with recollect.open(address, embedder="hash", background=False) as mem:
        household(mem)
        mem.user.add("Cai", id="cai")
        mem.privacy.erase(user="cai")  # before the backup: stays erased
        mem.backup(backups)
        told = mem.privacy.erase(user="ann-lee-1")
        (left,) = [one for one in told.certificate["remains"] if "backup" in one["what"]]
        deleted = sum(told.deleted.values())
        assert left["what"] == f"a backup with {deleted} of the deleted records"
    restored = app.restore(backups, address, left["id"], replace=True)
    (note,) = restored.notes
    assert "user 'ann-lee-1' of 'default'" in note
    assert "recollect privacy erase --user ann-lee-1" in note
    assert told.certificate["id"] in note
    with recollect.open(address, embedder="hash", background=False) as mem:
        assert mem.show("memory-of-ann-1").user == "ann-lee-1"  # as the certificate said
        again = mem.privacy.erase(user="ann-lee-1")
        assert sum(again.deleted.values()) >= deleted
        assert again.clean
        with pytest.raises(NotFound):
            mem.show("memory-of-ann-1")
    assert app.restore(backups, tmp_path / "elsewhere.db", left["id"]).notes == []


def test_restoring_over_a_store_that_cannot_be_read_says_that_erasures_may_be_undone(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash", background=False) as mem:
        mem.remember("Alice prefers pytest")
        mem.backup(str(tmp_path / "backups/"))
    (tmp_path / "a.db").write_bytes(b"not a store any more")
    (note,) = app.restore(str(tmp_path / "backups/"), tmp_path / "a.db", replace=True).notes
    assert "must be erased again" in note


def test_another_user_of_the_same_name_keeps_it(mem: Any) -> None:
    mem.user.add("Ann Lee", id="ann-lee-1")
    mem.user.add("Ann Lee", id="ann-lee-2")
    mem.remember("Ann Lee plays chess", user="ann-lee-2", id="chess")
    mem.privacy.erase(user="ann-lee-1")
    assert mem.user.show("ann-lee-2").name == "Ann Lee"
    assert mem.show("chess").text == "Ann Lee plays chess"
