"""What holds for every source: dry runs, second runs, interruptions, bad files, tenants, bounded memory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recollect
from counting import store_calls
from every_store import EMPTY_STORE, EVERY_STORE
from import_samples import made_sample
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, InvalidInput, SecretFound, StoreFull, TooLarge
from recollect.ports.query import Query
from recollect.services.admin import import_from
from recollect.services.importers import json_stream, origin
from recollect.services.importers.registry import NAMES, source_named
from recollect.testing.made_secrets import made

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "import.md"


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "store.db", embedder="hash") as opened:
        yield opened


def everything(mem: Any, folder: Path) -> set[str]:
    """All records but what differs from run to run."""
    file = folder / "all.jsonl"
    mem.export(str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()[1:-1]]
    parts = ("tag", "citation", "embedding", "item_vector", "index_task")
    return {f"{one['table']} {one['record']['id']}" for one in lines if one["table"] not in parts}


@pytest.mark.parametrize("source", NAMES)
def test_a_dry_run_counts_and_writes_nothing(mem: Any, tmp_path: Path, source: str) -> None:
    path = made_sample(source, tmp_path)
    dry = mem.import_(path, source=source, dry_run=True)
    assert (dry.dry_run, dry.records, dry.source) == (True, 0, source)
    assert dry.samples
    assert everything(mem, tmp_path) == set()
    wet = mem.import_(path, source=source)
    assert (wet.found, wet.unmapped, wet.records) == (dry.found, dry.unmapped, sum(dry.found.values()))
    assert mem.verify().sound


@pytest.mark.parametrize("source", NAMES)
def test_a_second_run_writes_nothing(mem: Any, tmp_path: Path, source: str) -> None:
    path = made_sample(source, tmp_path)
    first = mem.import_(path, source=source)
    before = everything(mem, tmp_path)
    again = mem.import_(path, source=source)
    assert (again.records, again.skipped) == (0, first.records)
    assert everything(mem, tmp_path) == before
    assert mem.import_(path, source=source, existing="replace").records > 0
    assert everything(mem, tmp_path) == before
    assert mem.verify().sound


@pytest.mark.parametrize("source", NAMES)
def test_auto_recognises_the_source_and_says_so(mem: Any, tmp_path: Path, source: str) -> None:
    reply = mem.import_(made_sample(source, tmp_path), source="auto", dry_run=True)
    assert reply.source == source
    assert reply.notes == [f"recognised as {source_named(source).title}"]


@pytest.mark.parametrize("source", NAMES)
def test_nothing_is_verified_by_an_import(mem: Any, tmp_path: Path, source: str) -> None:
    mem.import_(made_sample(source, tmp_path), source=source)
    rows = mem._core.store.select(mem._scope, Query(Memory), ("status",))
    assert {status for (status,) in rows} <= {"hypothesis"}


@pytest.mark.parametrize("source", NAMES)
def test_citations_lead_to_what_was_imported(mem: Any, tmp_path: Path, source: str) -> None:
    mem.import_(made_sample(source, tmp_path), source=source)
    assert mem.check().broken == 0


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_on_every_store(kind: str, tmp_path: Path) -> None:
    path = made_sample("session-memory-agent", tmp_path)
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        first = mem.import_(path, source="session-memory-agent")
        assert first.records == sum(first.found.values())
        assert mem.recall("起床", limit=1)[0].text == "明天早上七点叫我起床"
        assert mem.import_(path, source="session-memory-agent").records == 0
        assert mem.verify().sound


def test_an_import_that_was_stopped_is_finished_by_running_it_again(
    mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_from, "BATCH", 2)
    path = made_sample("session-memory-agent", tmp_path)
    transact: Callable[..., Any] = mem._core.store.transact
    for allowed in (1, 2, 1):
        left = [allowed]

        def full(scope: Any, steps: Any, left: list[int] = left) -> Any:
            if not left[0]:
                raise StoreFull("no space left")
            left[0] -= 1
            return transact(scope, steps)

        with monkeypatch.context() as patch:
            patch.setattr(mem._core.store, "transact", full)
            with pytest.raises(StoreFull):
                mem.import_(path, source="session-memory-agent")
        assert mem.verify().sound
    done = mem.import_(path, source="session-memory-agent")
    assert done.skipped > 0
    assert everything(mem, tmp_path) >= {"session sess-1", "session sess-2", "user maria"}
    assert mem.stats().memories == done.found["memory (conversation)"]


KILLED = """
import os, sys, recollect
from recollect.services.admin import import_from
import_from.BATCH = 2
def progress(done, total):
    if done > total / 2 + 4: os.kill(os.getpid(), 9)
with recollect.open(sys.argv[1], embedder="hash") as mem:
    mem.call("import_", path=sys.argv[2], source="session-memory-agent", progress=progress)
"""


def test_a_killed_import_is_finished_by_running_it_again(tmp_path: Path) -> None:
    path, store = made_sample("session-memory-agent", tmp_path), str(tmp_path / "store.db")
    ended = subprocess.run([sys.executable, "-c", KILLED, store, path], timeout=120, check=False)
    assert ended.returncode == -9
    with recollect.open(store, embedder="hash") as mem:
        assert mem.verify().sound
        done = mem.import_(path, source="session-memory-agent")
        assert done.skipped > 0
        assert done.records > 0
        assert mem.stats().memories == done.found["memory (conversation)"]
        assert mem.verify().sound


def test_two_programs_that_import_the_same_at_once_end_with_one_of_each(tmp_path: Path) -> None:
    path, store = made_sample("session-memory-agent", tmp_path), tmp_path / "store.db"
    with recollect.open(store, embedder="hash") as one, recollect.open(store, embedder="hash") as two:
        one.remember("so that the organization exists")
        with ThreadPoolExecutor(2) as both:
            asked = {"path": path, "source": "session-memory-agent"}
            replies = list(both.map(lambda mem: mem.call("import_", **asked), (one, two)))
        assert one.stats().memories == 1 + replies[0].found["memory (conversation)"]
        assert one.verify().sound


def test_tenants_import_the_same_ids_side_by_side(mem: Any, tmp_path: Path) -> None:
    path = made_sample("contextual-memory-pc2", tmp_path)
    other = mem.within(organization="other")
    assert mem.import_(path, source="contextual-memory-pc2").records > 0
    assert other.stats().memories == 0
    assert other.import_(path, source="contextual-memory-pc2").records > 0
    mem.erase("ctx-1")
    assert other.show("ctx-1").text == "Maria is vegetarian."


def test_owners_that_exist_stay_as_they_are_even_when_replacing(mem: Any, tmp_path: Path) -> None:
    mem.user.revise(mem.user.add("Tony Stark", id="tony").id, role="admin")
    path = made_sample("jarvis-memory-pc2", tmp_path)
    for existing in ("skip", "replace"):
        mem.import_(path, source="jarvis-memory-pc2", existing=existing)
        assert (mem.user.show("tony").name, mem.user.show("tony").role) == ("Tony Stark", "admin")


def test_a_memory_that_says_something_else_under_the_same_id_is_reported(mem: Any, tmp_path: Path) -> None:
    mem.remember("Something of my own", id="ctx-1")
    reply = mem.import_(made_sample("contextual-memory-pc2", tmp_path), source="contextual-memory-pc2")
    assert mem.show("ctx-1").text == "Something of my own"
    (told,) = [one for one in reply.unmapped if "other content" in one.why]
    assert told.example == "ctx-1"


def with_secrets(folder: Path) -> tuple[str, str]:
    secret, text = made("GitHub token")
    said = [{"role": "user", "content": text}, {"role": "tool", "content": text}]
    whole = {"session_id": "s", "conversation_history": said, "session_summary": text, "extra": text}
    path = folder / "secrets.json"
    path.write_text(json.dumps([whole]))
    return str(path), secret


def test_secrets_are_masked_before_anything_is_stored(mem: Any, tmp_path: Path) -> None:
    path, secret = with_secrets(tmp_path)
    reply = mem.import_(path, source="session-memory-agent")
    masked = {one.field for one in reply.masked}
    assert masked >= {"message.text", "memory (conversation).content.text", "session.summary"}
    mem.export(str(tmp_path / "all.jsonl"))
    assert secret not in (tmp_path / "all.jsonl").read_text()
    assert secret not in reply.model_dump_json()
    assert mem.import_(path, source="session-memory-agent").records == 0


def test_secrets_are_refused_where_the_settings_say_so(tmp_path: Path) -> None:
    path, _ = with_secrets(tmp_path)
    with recollect.open(tmp_path / "strict.db", embedder="hash", secrets="refuse") as mem:
        with pytest.raises(SecretFound):
            mem.import_(path, source="session-memory-agent")
        assert mem.session.list().sessions == []


# -- bad files ---------------------------------------------------------------------------------------------------------


def refused(mem: Any, path: Path, source: str = "session-memory-agent", error: type[Exception] = InvalidInput) -> str:
    with pytest.raises(error) as told:
        mem.import_(str(path), source=source)
    assert told.value.remedy  # type: ignore[attr-defined]
    assert mem.stats().memories == 0
    return str(told.value)


def test_bad_files_are_refused_before_anything_is_written(mem: Any, tmp_path: Path) -> None:
    whole = Path(made_sample("session-memory-agent", tmp_path)).read_text()
    bad = tmp_path / "bad.json"
    for content, why in (
        (whole[:-20], "cut short"),
        (whole[:700], "cut short"),
        (whole.replace('"session_id"', "session_id", 1), "not JSON at character"),
        (whole + "]", "not JSON at character"),
        ("", "is empty"),
        ("[" * 100_000, "not JSON"),
        ('[{"session_id": "a", "n": ' + "9" * 10_000 + "}]", "not JSON"),
    ):
        bad.write_text(content)
        assert why in refused(mem, bad)
    bad.write_bytes(b'[{"session_id": "\xff\xfe"}]')
    assert "not UTF-8" in refused(mem, bad)
    bad.write_bytes(b"SQLite format 3\x00" + b"rubbish" * 100)
    assert "SQLite" in refused(mem, bad)
    assert "cannot read" in refused(mem, tmp_path / "missing.json")
    os.mkfifo(tmp_path / "pipe")
    for source in ("session-memory-agent", "auto"):
        assert "not a file or folder" in refused(mem, tmp_path / "pipe", source)
    assert "not a source" in refused(mem, bad, "winamp")


def test_an_unknown_file_is_not_guessed(mem: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"colour": "red"}]')
    assert "--from" in refused(mem, tmp_path / "x.json", "auto")
    assert "recollect copy" in refused(mem, _other_store(tmp_path), "auto")
    assert "store itself" in refused(mem, tmp_path / "store.db", "auto")


def _other_store(folder: Path) -> Path:
    with recollect.open(folder / "other.db", embedder="hash") as other:
        other.remember("mine")
    return folder / "other.db"


def test_an_export_of_recollect_is_recognised(mem: Any, tmp_path: Path) -> None:
    mem.remember("mine")
    mem.export(str(tmp_path / "own.jsonl"))
    assert mem.import_(str(tmp_path / "own.jsonl"), source="auto").source == "recollect"
    with pytest.raises(InvalidInput, match="--from"):
        mem.import_(str(tmp_path / "own.jsonl"), vector_model="any")


def test_a_dry_run_of_an_export_checks_counts_and_masks_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    secret = "AKIA" + "QYLPMN5HFIQR7XYA"
    with recollect.open(tmp_path / "one.db", embedder="hash", secrets="keep") as mem:
        kept = mem.remember(f"the key is {secret}", tags=["one", "two"])
        mem.export(str(path))
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        dry = other.import_(str(path), dry_run=True)
        assert (dry.dry_run, dry.records, dry.found["memory"], dry.found["tag"]) == (True, 0, 1, 2)
        (sample,) = dry.samples
        assert (sample.what, sample.id) == ("memory", kept.id)
        assert secret not in sample.text
        assert dry.masked
        assert other.list().memories == []
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(DamagedData, match="cut short"):
            other.import_(str(path), dry_run=True)


def test_strange_text_is_kept_as_far_as_a_store_can(mem: Any, tmp_path: Path) -> None:
    strange = {"context_id": "c", "context_data": {"text": "a\x00b\ud800c 😀"}, "n\x00": "x" * 10}
    (tmp_path / "strange.json").write_text(json.dumps([strange, {"context_id": "d", "context_data": "x" * 2_000_000}]))
    reply = mem.import_(str(tmp_path / "strange.json"), source="contextual-memory-pc2")
    assert mem.show("c").text == "a\ufffdb\ufffdc 😀"
    (told,) = [one for one in reply.unmapped if one.example == "d"]
    assert "characters" in told.why


def test_what_is_too_long_for_a_message_is_left_out_and_reported(mem: Any, tmp_path: Path) -> None:
    attached = [{"file_name": "a.txt", "extracted_content": "x" * 1_100_000}]
    said = [
        {"uuid": "a", "sender": "human", "text": "x" * 1_100_000},
        {"uuid": "b", "sender": "human", "text": "see the file", "attachments": attached},
    ]
    (tmp_path / "c.json").write_text(json.dumps([{"uuid": "s", "chat_messages": said}]))
    reply = mem.import_(str(tmp_path / "c.json"), source="claude")
    assert [(one.text, one.content) for one in mem.message.list(session="s").messages] == [("see the file", [])]
    assert {(one.field, one.example) for one in reply.unmapped} == {("", "a"), ("content", "b")}


# -- size --------------------------------------------------------------------------------------------------------------


def long_file(path: Path, sessions: int) -> Path:
    with path.open("w") as file:
        file.write("[")
        for number in range(sessions):
            turns = [{"role": "user", "content": f"turn {number} {n} " + "word " * 40} for n in range(5)]
            made = {"session_id": f"s{number}", "conversation_history": turns}
            file.write(("," if number else "") + json.dumps(made))
        file.write("]")
    return path


def test_memory_stays_bounded_while_a_file_is_read(mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 1 << 14)
    peaks = []
    for sessions in (100, 1000):
        path = long_file(tmp_path / f"{sessions}.json", sessions)
        tracemalloc.start()
        mem.import_(str(path), source="session-memory-agent", dry_run=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2_000_000  # ids of sessions; the file itself is 12 MB larger


def test_work_grows_with_the_file(mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of the store and decoded characters: four times the file, four times the work."""
    monkeypatch.setattr(json_stream, "CHUNK", 1 << 12)
    statements = []
    for sessions in (40, 160):
        path = long_file(tmp_path / f"{sessions}.json", sessions)
        with monkeypatch.context() as patch:
            calls = store_calls(mem, patch)
            mem.import_(str(path), source="session-memory-agent")
            statements.append(len(calls))
    assert statements[1] <= 5 * statements[0]
    decoded = [0]
    decode = json_stream._DECODER.raw_decode

    class Counting:
        def raw_decode(self, text: str, at: int) -> Any:
            decoded[0] += len(text) - at
            return decode(text, at)

    monkeypatch.setattr(json_stream, "_DECODER", Counting())
    for size in (1 << 16, 1 << 20):
        decoded[0] = 0
        list(json_stream.values(io.BytesIO(json.dumps([["x" * size]]).encode()), "x"))
        assert decoded[0] < 8 * size


def test_one_value_may_not_be_larger_than_memory_allows(
    mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "LARGEST_VALUE", 1000)
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    (tmp_path / "big.json").write_text(json.dumps([{"session_id": "x" * 100_000}]))
    assert "JSON Lines" in refused(mem, tmp_path / "big.json", error=TooLarge)


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_zips_that_would_do_harm_are_refused(mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped(tmp_path / "bomb.zip", **{"sessions.json": b" " * (11 << 20)})
    assert "unpacks to" in refused(mem, bomb, error=TooLarge)
    outside = zipped(tmp_path / "outside.zip", **{"../sessions.json": b"[]"})
    assert "has no sessions.json" in refused(mem, outside)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bomb.read_bytes()[:200])
    assert "damaged zip" in refused(mem, cut)
    monkeypatch.setattr(origin, "MOST_MEMBERS", 2)
    many = zipped(tmp_path / "many.zip", a=b"", b=b"", c=b"")
    assert "more than 2 files" in refused(mem, many, error=TooLarge)


# -- docs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", NAMES)
def test_the_guide_says_what_becomes_of_every_field(source: str) -> None:
    found = source_named(source)
    title = found.title[0].upper() + found.title[1:]
    section = GUIDE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [f"| {map.what} | `{name}` | {map.in_words(name)} |" for map in found.maps for name in map.fields]
    assert [row for row in rows if row not in section] == []
    assert f"| `{source}` | {found.title}: {found.reads} |" in GUIDE.read_text()
