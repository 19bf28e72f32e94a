"""`config check` tries every part that the settings name, makes nothing, and says what is wrong and how to mend it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from chroma_server import chroma
from dynamodb_server import dynamodb
from postgres_server import BIN, server
from recollect.adapters.postgres.errors import recollect_error
from recollect.app import check_settings
from recollect.errors import StoreError, StoreReadOnly, Unavailable
from recollect.settings import load, shown


def findings(source: Any = None, **environment: str) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
        for name, value in environment.items():
            patch.setenv(f"RECOLLECT_{name}", value)
        return {finding.name: finding for finding in check_settings(source)}


@contextmanager
def role(name: str, **options: Any) -> Iterator[str]:
    """A user of the server, and the address of a database that is theirs if `owns`."""
    server().admin(f"CREATE ROLE {name} LOGIN {options.get('may', '')}")
    database = server().new_database().rpartition("/")[2]
    try:
        if options.get("owns", True):
            server().admin(f"ALTER DATABASE {database} OWNER TO {name}")
        yield server().address(database, name)
    finally:
        server().admin(f"DROP DATABASE {database} WITH (FORCE)")
        server().admin(f"DROP ROLE {name}")


def tables(address: str) -> int:
    found = server().admin("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", address.rpartition("/")[2])
    return int(found[0][0])


def test_a_database_is_looked_at_and_nothing_is_made_in_it() -> None:
    address = server().new_database()
    store = findings(address)["store"]
    assert store.well
    assert "pgvector 0." in store.says
    assert "will be made" in store.says
    assert tables(address) == 0
    recollect.open(address, embedder="hash").close()
    assert "up to date" in findings(address)["store"].says


@pytest.mark.parametrize("opening", [False, True])
def test_a_user_without_rights_learns_which_to_ask_for(opening: bool) -> None:
    server().empty()  # makes the two roles

    def told(address: str) -> tuple[str, str]:
        if not opening:
            finding = findings(address)["store"]
            assert not finding.well
            return finding.says, finding.remedy
        with pytest.raises(StoreReadOnly) as error:
            recollect.open(address, embedder="hash")
        return error.value.message, error.value.remedy

    with role("lowly") as address:
        says, remedy = told(address)
        assert "recollect_app" in says
        assert 'GRANT recollect_app, recollect_upkeep TO "lowly"' in remedy
        server().admin("GRANT recollect_app, recollect_upkeep TO lowly")
        recollect.open(address, embedder="hash").close()
    with role("guest", owns=False) as address:
        server().admin("GRANT recollect_app, recollect_upkeep TO guest")
        says, remedy = told(address)
        assert "does not let its user 'guest' make tables" in says
        assert 'CREATE ON SCHEMA "public" TO "guest"' in remedy
        recollect.open(server().address(address.rpartition("/")[2]), embedder="hash").close()
        assert "'postgres', who owns" in told(address)[1]


def test_a_role_that_passes_by_the_wall_is_refused() -> None:
    address = server().new_store()
    server().admin("ALTER ROLE recollect_app BYPASSRLS")
    try:
        assert "ALTER ROLE recollect_app NOSUPERUSER NOBYPASSRLS" in findings(address)["store"].remedy
        with pytest.raises(StoreError, match="passes by row-level security"):
            recollect.open(address, embedder="hash")
    finally:
        server().admin("ALTER ROLE recollect_app NOBYPASSRLS")
    recollect.open(address, embedder="hash").close()


def test_an_encoding_that_cannot_hold_every_text_is_refused() -> None:
    server().admin("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
    address = server().address("latin")
    assert "ENCODING 'UTF8'" in findings(address)["store"].remedy
    with pytest.raises(StoreError, match="LATIN1"):
        recollect.open(address, embedder="hash")


REFUSALS = {
    'server at "h", port 5 failed: FATAL:  password authentication failed for user "u"': "refused the login",
    "server at ... failed: fe_sendauth: no password supplied": "refused the login",
    'FATAL:  role "u" does not exist': "refused the login",
    'FATAL:  no pg_hba.conf entry for host "1.2.3.4", user "u", database "d", no encryption': "refused the login",
    'FATAL:  database "d" does not exist': "does not exist",
    "failed to resolve host 'h': [Errno -2] Name or service not known": "unknown host",
    "connection failed: Connection refused\n\tIs the server running on that host": "has no server",
    "connection timeout expired": "did not answer",
    "FATAL:  sorry, too many clients already": "no connection left",
    "FATAL:  the database system is starting up": "starting",
    "server does not support SSL, but SSL was required": "TLS",
    "something in another language": "cannot be reached",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_why_no_connection_came_about_is_told_without_the_drivers_words(said: str) -> None:
    told = recollect_error(psycopg.OperationalError(said), "the database")
    assert isinstance(told, Unavailable)
    assert REFUSALS[said] in told.message
    assert told.remedy
    assert '"u"' not in str(told)


def test_the_server_says_no_in_our_words() -> None:
    for address, words in (
        (server().address("nothing_here"), "does not exist"),
        (server().address(user="nobody_here"), "refused the login"),
        ("postgresql://127.0.0.1:1/x", "has no server"),
        ("postgresql://no.such.host.invalid/x", "unknown host"),
    ):
        assert words in findings(address)["store"].says


def test_the_vector_store_is_tried(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    assert "Chroma 1" in findings(path, VECTORS=f"chroma+{chroma().url}")["vectors"].says
    away = findings(path, VECTORS="chroma+http://127.0.0.1:1")["vectors"]
    assert (away.well, bool(away.remedy)) == (False, True)
    database = server().new_database()
    assert "pgvector 0." in findings(path, VECTORS=f"pgvector+{database}")["vectors"].says
    assert tables(database) == 0
    wrong = findings(path, VECTORS=f"pgvector+{server().address(user='nobody_here')}")["vectors"]
    assert "refused the login" in wrong.says
    assert "CREATE EXTENSION vector" in findings(path, VECTORS="pgvector")["vectors"].remedy
    assert "will be created" in findings(path, VECTORS=f"chroma:{tmp_path / 'new'}")["vectors"].says
    assert not (tmp_path / "new").exists()
    missing = findings(path, VECTORS=f"chroma+{chroma().url}", VECTORS__SECRET_ENV="NOT_SET_AT_ALL")["vectors"]
    assert "NOT_SET_AT_ALL" in missing.says


@contextmanager
def model(answer: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            known = self.headers["Authorization"] == "Bearer hush-hush"
            body = json.dumps({"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]}).encode()
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(body if known else b"")

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/v1"
        finally:
            listening.shutdown()
            thread.join()


def test_the_language_model_is_tried_with_its_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush-hush\n")

    def told(url: str, key: str) -> Any:
        (tmp_path / "r.yaml").write_text(
            f"store: a.db\nlanguage_model: {{provider: openai, model: m, base_url: '{url}', api_key_file: {key}}}\n"
        )
        found = findings(tmp_path / "r.yaml")
        assert "hush" not in str(found)
        return found["language_model"]

    with model('{"ready": true}') as url:
        assert told(url, "key").well  # beside the settings, wherever the program was started
        assert "cannot read the key" in told(url, "absent").says
        (tmp_path / "other").write_text("wrong")
        assert told(url, "other").remedy == "check the API key"
    with model("no idea") as url:
        assert "does not fit" in told(url, "key").says
    assert "failed" in told("http://127.0.0.1:1/v1", "key").says


def test_files_and_tables_are_looked_at_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.db").touch()
    assert findings(tmp_path / "empty.db")["store"].well
    assert (tmp_path / "empty.db").stat().st_size == 0
    duck = f"duckdb:///{tmp_path}/a.duckdb"
    assert "will be created" in findings(duck)["store"].says
    recollect.open(duck, embedder="hash").close()
    assert "up to date" in findings(duck)["store"].says
    table = dynamodb().new_store()
    assert "will be made" in findings(table)["store"].says
    assert "will be made" in findings(table)["store"].says
    recollect.open(table, embedder="hash").close()
    assert "up to date" in findings(table)["store"].says
    assert not findings(tmp_path / "no" / "folder.db")["store"].well


def test_the_client_programs_of_postgresql_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(f"store: a.db\npostgres_tools: {tmp_path}\n")
    assert "no pg_dump" in findings(tmp_path / "r.yaml")["postgres_tools"].says
    (tmp_path / "r.yaml").write_text(f"store: a.db\npostgres_tools: {BIN}\n")
    assert "postgres_tools" not in findings(tmp_path / "r.yaml")


def test_no_secret_of_an_address_is_shown() -> None:
    address = "postgresql://u:hush@h/d?sslmode=require&password=hush&sslpassword=hush"
    assert shown(address) == "postgresql://u:***@h/d?sslmode=require&password=***&sslpassword=***"
    settings = load(address, vectors={"provider": "pgvector", "url": address})
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings)


@pytest.mark.parametrize(
    ("roots", "says"),
    [
        (["/"], "contains system files"),
        (["/proc/self"], "contains system files"),
        (["{here}"], "contains the store"),
        (["{here}/code", "{here}/keys"], "contains a file with a key"),
    ],
)
def test_roots_that_hold_what_nobody_may_cite_are_warned_of(tmp_path: Path, roots: list[str], says: str) -> None:
    for name in ("code", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys" / "key").write_text("sk-1\n")
    given = {
        "store": str(tmp_path / "a.db"),
        "citation_roots": [root.format(here=tmp_path) for root in roots],
        "language_model": {"provider": "none", "api_key_file": str(tmp_path / "keys" / "key")},
    }
    (tmp_path / "settings.yaml").write_text(json.dumps(given))
    found = findings(tmp_path / "settings.yaml")["citation_roots"]
    assert not found.well
    assert says in found.says
    assert "clone of a repository" in found.remedy


def test_it_is_said_what_can_be_cited_over_the_service(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    assert "citation_roots" not in findings(tmp_path / "a.db")
    found = findings(tmp_path / "a.db", CITATION_ROOTS=str(tmp_path / "code"))["citation_roots"]
    assert found.well
    assert found.says == f"files in {tmp_path / 'code'} can be cited over the service"


def test_the_place_of_large_content_is_tried_and_nothing_is_made(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    assert "objects" not in findings(store)
    finding = findings(store, OBJECTS=str(tmp_path / "content"))["objects"]
    assert (finding.well, "will be created" in finding.says) == (True, True)
    (tmp_path / "file").touch()
    wrong = findings(store, OBJECTS=str(tmp_path / "file"))["objects"]
    assert (wrong.well, "not a folder" in wrong.says) == (False, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_stored_files_must_not_be_citable(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("store: memory://\nobjects: shared/content\ncitation_roots: [shared]\n")
    (tmp_path / "shared").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        finding = findings(tmp_path / "settings.yaml")["citation_roots"]
    assert (finding.well, "stored files" in finding.says) == (False, True)


# -- what is unsafe ----------------------------------------------------------------------------------------------------


def unsafe(source: Any = None, **environment: str) -> dict[str, str]:
    return {name: finding.says for name, finding in findings(source, **environment).items() if not finding.well}


def test_files_that_everybody_can_read_are_named(tmp_path: Path) -> None:
    store, key = tmp_path / "team.db", tmp_path / "key"
    recollect.open(store, embedder="hash").close()
    assert unsafe(store) == {}
    store.chmod(0o644)
    assert "the store" in unsafe(store)["permissions"]
    store.chmod(0o600)
    key.write_text("a key of more than sixteen letters")
    key.chmod(0o604)
    assert "a file with a key" in unsafe(tmp_path / "new.db", KEY_FILE=str(key))["permissions"]


def test_secrets_in_the_settings_file_are_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("store: memory://\nkey: a secret of many letters\nvectors: {url: 'http://ann:xyzzy@host:1'}\n")
    found = [finding for finding in check_settings(file) if finding.name == "secrets"]
    assert [finding.says.rpartition(" ")[2] for finding in found] == ["`key`", "`vectors.url`"]
    assert not any("xyzzy" in finding.says + finding.remedy for finding in check_settings(file))
    file.write_text("store: memory://\nkey: ${THE_KEY}\n")
    assert "secrets" not in unsafe(file, STORE="memory://")


def test_open_doors_are_named() -> None:
    assert "unencrypted" in unsafe("memory://", SERVER__HOST="0.0.0.0")["network"]
    assert "network" not in unsafe("memory://", SERVER__HOST="0.0.0.0", SERVER__PROXIES="10.0.0.0/8")
    assert "10.0.0.0/8" in unsafe("memory://", CONNECTIONS__HOSTS="db.example,10.0.0.0/8")["connections"]
    assert "connections" not in unsafe("memory://", CONNECTIONS__HOSTS="db.example,10.0.0.0/24")
    notes = findings("memory://", FETCH="true", SERVER__HOST="0.0.0.0", SERVER__PROXIES="10.0.0.1")
    assert {"fetch", "encryption", "backups"} <= notes.keys()
    assert all(notes[name].well for name in ("fetch", "encryption", "backups"))
    assert "backups" not in findings("memory://", BACKUPS__TO="/backups", BACKUPS__EVERY_HOURS="24")
