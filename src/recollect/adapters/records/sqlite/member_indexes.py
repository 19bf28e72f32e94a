"""Declared indexes of members of JSON fields: expression indexes, which `SqliteDialect.member` is written to match."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.adapters.records.common.dialect import Run
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.sqlite.dialect import json_path
from recollect.ports.member_indexes import MemberIndex

PREFIX = "member of "


def update(run: Run, wanted: Sequence[MemberIndex]) -> None:
    """Make those that are missing, and drop those that are no longer declared."""
    found = run("SELECT name FROM sqlite_master WHERE type = 'index' AND substr(name, 1, ?) = ?", (len(PREFIX), PREFIX))
    have, want = {str(name) for (name,) in found}, {PREFIX + one.name: one for one in wanted}
    for name in sorted(have - want.keys()):
        run(f"DROP INDEX {quoted(name)}", ())
    for name in sorted(want.keys() - have):
        member = f"json_extract({quoted(want[name].field)}, {json_path(want[name].path)})"
        table = quoted(want[name].record.shape.table)
        # Most records have no such member: a partial index costs nothing for those.
        run(f"CREATE INDEX {quoted(name)} ON {table}(organization_id, {member}) WHERE {member} IS NOT NULL", ())
