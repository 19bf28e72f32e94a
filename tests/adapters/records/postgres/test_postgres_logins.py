"""A login that only serves and one for upkeep: what a statement that somebody slips in can reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

import recollect
from postgres_server import server
from recollect.adapters.postgres.connection import APP, UPKEEP
from recollect.adapters.records.postgres import preflight
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.app import check_settings
from recollect.errors import InvalidSettings, StoreReadOnly
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import found, one_of_each

INJECTED = (
    "RESET ROLE",
    f"RESET ROLE; SET ROLE {UPKEEP}",
    f"RESET ROLE; SET LOCAL ROLE {UPKEEP}",
    f"SET SESSION AUTHORIZATION DEFAULT; SET ROLE {UPKEEP}",
    "RESET ROLE; SET row_security = off",
    "RESET ROLE; ALTER TABLE memory DISABLE ROW LEVEL SECURITY",
    "RESET ROLE; ALTER TABLE memory NO FORCE ROW LEVEL SECURITY",
    f"RESET ROLE; GRANT {UPKEEP} TO CURRENT_USER; SET ROLE {UPKEEP}",
    f"RESET ROLE; CREATE POLICY mine ON memory TO {APP} USING (true); SET ROLE {APP}",
    "COMMIT; RESET ROLE",
)


class Logins(NamedTuple):
    serving: str
    upkeep: str


@pytest.fixture
def logins() -> Iterator[Logins]:
    """A database of `upkeep`, who is no administrator, and a `serving` that may do nothing yet."""
    admin = server().admin
    server().empty()  # makes the roles
    admin(f"CREATE ROLE serving LOGIN; CREATE ROLE upkeep LOGIN; GRANT {APP}, {UPKEEP} TO upkeep WITH INHERIT FALSE")
    admin(f"GRANT {APP} TO serving WITH INHERIT FALSE, SET TRUE")
    admin("CREATE DATABASE two_logins OWNER upkeep")
    yield Logins(server().address("two_logins", "serving"), server().address("two_logins", "upkeep"))
    admin("DROP DATABASE two_logins (FORCE)")
    admin("DROP ROLE serving; DROP ROLE upkeep")


def _filled(store: PostgresStore) -> PostgresStore:
    for name in ("acme", "globex"):
        scope = found(store, name)
        store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
    return store


def _foreign_rows(store: PostgresStore, injected: str) -> int:
    """What a transaction bound to acme reads of others after somebody else's words in one of its statements."""
    connection = store.database._open_pool().getconn()
    try:
        connection.execute(f"BEGIN; SET LOCAL ROLE {APP}; {store.database.bound('acme')}")
        try:
            connection.execute(injected)
            text = "SELECT count(*) FROM memory WHERE organization_id <> 'acme'"
            return int(connection.execute(text).fetchall()[0][0])
        except psycopg.errors.InsufficientPrivilege:
            return 0
    finally:
        connection.close()
        store.database._open_pool().putconn(connection)


@pytest.mark.parametrize("injected", INJECTED)
def test_what_is_slipped_into_the_serving_login_reads_no_foreign_row(logins: Logins, injected: str) -> None:
    store = _filled(PostgresStore(logins.serving, upkeep=logins.upkeep))
    try:
        assert _foreign_rows(store, injected) == 0
    finally:
        store.close()


def test_with_one_login_the_same_words_read_them_and_that_is_said(logins: Logins) -> None:
    store = _filled(PostgresStore(logins.upkeep))
    try:
        assert _foreign_rows(store, INJECTED[0]) == 0
        assert _foreign_rows(store, INJECTED[1]) == 1
        assert "not statements slipped in" in store.capabilities.remarks[0].says
        assert "not statements slipped in" in preflight.examine(logins.upkeep)
    finally:
        store.close()


def test_everything_works_with_two_logins(logins: Logins) -> None:
    with recollect.open(logins.serving, postgres_upkeep=logins.upkeep, embedder="hash") as mem:
        kept = mem.remember("the boat is blue", tags=["boats"])
        gone = mem.remember("the boat is red")
        assert mem.recall("boat")[0].text in ("the boat is blue", "the boat is red")
        mem.erase(gone.id)
        mem.reindex()
        assert [one.id for one in mem.list().memories] == [kept.id]
        assert mem.verify().sound
        assert mem.partitions(ahead=5).partitions
        said = mem.doctor(fix=True)
        assert said.well
        assert "only serves" in next(one.says for one in said.findings if one.name == "logins")
    assert "only serves" in preflight.examine(logins.serving, logins.upkeep)
    with recollect.open(logins.serving, postgres_upkeep=logins.upkeep, embedder="hash") as again:
        assert len(again.recall("boat")) == 1


def test_a_login_that_may_more_than_serve_is_refused(logins: Logins) -> None:
    PostgresStore(logins.serving, upkeep=logins.upkeep).close()
    own = server().address("two_logins")
    for serving, why in ((own, "administrator"), (logins.serving, UPKEEP)):
        if serving != own:
            server().admin(f"GRANT {UPKEEP} TO serving WITH INHERIT FALSE, SET TRUE")
        with pytest.raises(InvalidSettings, match=why):
            PostgresStore(serving, upkeep=logins.upkeep)
        with pytest.raises(InvalidSettings, match=why):
            preflight.examine(serving, logins.upkeep)


def test_a_login_that_may_not_serve_learns_what_it_needs(logins: Logins) -> None:
    server().admin(f"REVOKE {APP} FROM serving")
    with pytest.raises(StoreReadOnly, match=f'GRANT {APP} TO "serving"'):
        PostgresStore(logins.serving, upkeep=logins.upkeep)


def test_two_databases_are_not_taken_for_one(logins: Logins) -> None:
    other = server().new_store().rpartition("/")[2]
    for database in (other, "postgres"):
        with pytest.raises(InvalidSettings, match="not the same database"):
            PostgresStore(server().address(database, "serving"), upkeep=logins.upkeep)


def test_a_vector_index_in_memory_for_want_of_a_right_is_said(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has pgvector, but only an administrator may create it."""
    with recollect.open(logins.upkeep, embedder="hash") as mem:
        mem.remember("the boat is blue")
        said = mem.doctor()
    assert said.well
    (told,) = [one for one in said.findings if one.name == "pgvector"]
    assert "may not create it" in told.says
    assert "CREATE EXTENSION vector" in told.remedy
    (store, vectors) = list(check_settings(logins.upkeep))[1:3]
    assert store.well
    assert "may not create" in store.says
    assert vectors.well
    monkeypatch.setenv("RECOLLECT_VECTORS", "pgvector")
    refused = list(check_settings(logins.upkeep))[2]
    assert not refused.well
    assert "CREATE EXTENSION vector" in refused.remedy
    monkeypatch.delenv("RECOLLECT_VECTORS")
    server().admin("CREATE EXTENSION vector", "two_logins")
    with recollect.open(logins.upkeep, embedder="hash") as mem:
        assert not [one for one in mem.doctor().findings if one.name == "pgvector"]
    assert "may not create" not in preflight.examine(logins.upkeep)
