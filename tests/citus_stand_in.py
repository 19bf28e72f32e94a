"""A stand-in for Citus where there is no cluster: an extension of that name whose functions do what the statements of
ours depend on, on one plain server.

It is no Citus. Tables stay where they are, and the one "worker" is the same database. But what is sent to a worker, or
to a shard, really goes over a connection of its own, as the current role: so a role that may not log in is refused, and
what waits for a lock of the transaction that asks waits. Spreading a table locks what Citus locks on the workers (the
roles, until the end), and every call is noted in order. What a real cluster does is tried where there is one: see
tests/adapters/records/postgres/test_citus_cluster.py.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import psycopg

from postgres_server import BIN, Server

_CONTROL = (
    "comment = 'stand-in'\ndefault_version = '14.0'\nrelocatable = false\nschema = pg_catalog\nsuperuser = true\n"
)
_SQL = r"""
SET LOCAL allow_system_table_mods = on;
CREATE SCHEMA citus_calls;
GRANT USAGE ON SCHEMA citus_calls TO PUBLIC;
CREATE TABLE citus_calls.made (n bigint GENERATED ALWAYS AS IDENTITY, what text, about text, transaction text);
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY, shards int, beside text);
GRANT SELECT ON pg_catalog.pg_dist_partition TO PUBLIC;

CREATE TABLE pg_catalog.pg_dist_node (nodename text, nodeport int, groupid int, noderole text);

CREATE FUNCTION citus_calls.note(what text, about text) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO citus_calls.made (what, about, transaction) VALUES ($1, $2, pg_current_xact_id()::text) $$;

CREATE FUNCTION citus_calls.caller() RETURNS text LANGUAGE sql AS $$
  SELECT coalesce(nullif(current_setting('role'), 'none'), session_user::text) $$;

-- A connection of its own, as the role that works; one value or none comes back.
CREATE FUNCTION citus_calls.elsewhere(command text, OUT success bool, OUT result text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE place text := '@FOLDER@/' || gen_random_uuid();
BEGIN
  EXECUTE format('COPY (SELECT %L) TO PROGRAM %L WITH (FORMAT csv, QUOTE E''\x01'', DELIMITER E''\x02'')', command,
    format('PGOPTIONS="-clock_timeout=2s" @BIN@/psql -X -A -t -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p %s -U %s -d %s '
      '-f - > %s 2>&1; echo $? > %s.rc',
      current_setting('port'), citus_calls.caller(), current_database(), place, place));
  success := trim(E'\n ' FROM pg_read_file(place || '.rc')) = '0';
  result := trim(E'\n' FROM pg_read_file(place));
END $$;

CREATE FUNCTION pg_catalog.citus_get_active_worker_nodes(OUT node_name text, OUT node_port bigint)
RETURNS SETOF record LANGUAGE sql AS $$ SELECT 'worker-1', 5432::bigint $$;

CREATE FUNCTION pg_catalog.run_command_on_workers(command text, parallel bool DEFAULT true,
  OUT nodename text, OUT nodeport int, OUT success bool, OUT result text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
  PERFORM citus_calls.note('workers', command);
  nodename := 'worker-1'; nodeport := 5432;
  SELECT e.success, e.result INTO success, result FROM citus_calls.elsewhere(command) e;
  IF NOT success AND result LIKE '%connection to server%' THEN result := 'failed to connect to worker-1:5432'; END IF;
  RETURN NEXT;
END $$;

CREATE FUNCTION pg_catalog.master_run_on_worker(worker_name text[], port int[], command text[], parallel bool,
  OUT node_name text, OUT node_port int, OUT success bool, OUT result text)
RETURNS SETOF record LANGUAGE sql AS $$
  SELECT worker_name[1], port[1], e.success, e.result FROM citus_calls.elsewhere(command[1]) e $$;

CREATE FUNCTION pg_catalog.citus_add_node(nodename text, nodeport int) RETURNS int LANGUAGE sql AS $$ SELECT 1 $$;

CREATE FUNCTION pg_catalog.run_command_on_shards(table_name regclass, command text, parallel bool DEFAULT true,
  OUT shardid bigint, OUT success bool, OUT result text)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
  PERFORM citus_calls.note('shards', table_name::text);
  shardid := 102008 + table_name::oid::bigint;
  SELECT e.success, e.result INTO success, result FROM citus_calls.elsewhere(format(command, table_name)) e;
  RETURN NEXT;
END $$;

CREATE FUNCTION citus_calls.spread(relation regclass, shards int, beside text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  -- Citus makes and changes the roles that a table needs on every worker, and keeps their rows locked until the end.
  PERFORM 1 FROM pg_authid WHERE rolname LIKE 'recollect%' FOR UPDATE;
  INSERT INTO pg_catalog.pg_dist_partition SELECT relid, shards, beside FROM pg_partition_tree(relation)
  UNION SELECT relation, shards, beside;
END $$;

CREATE FUNCTION pg_catalog.create_reference_table(table_name regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM citus_calls.note('reference', table_name::text);
  PERFORM citus_calls.spread(table_name, 1, 'none');
END $$;

CREATE FUNCTION pg_catalog.create_distributed_table(table_name regclass, distribution_column text,
  distribution_type text DEFAULT 'hash', colocate_with text DEFAULT 'default', shard_count int DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF colocate_with NOT IN ('none', 'default') AND shard_count IS NOT NULL THEN
    RAISE EXCEPTION 'Cannot use colocate_with with a table and shard_count at the same time';
  END IF;
  IF distribution_column <> 'organization_id' THEN RAISE EXCEPTION 'another column'; END IF;
  PERFORM citus_calls.note('distributed', table_name::text);
  PERFORM citus_calls.spread(table_name, shard_count, colocate_with);
END $$;

CREATE FUNCTION pg_catalog.truncate_local_data_after_distributing_table(function_name regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid = function_name) THEN
    RAISE EXCEPTION 'supplied parameter is not a distributed relation';
  END IF;
  PERFORM citus_calls.note('truncated', function_name::text);
END $$;

CREATE VIEW pg_catalog.pg_dist_shard AS
  SELECT logicalrelid, 102008 + logicalrelid::oid::bigint AS shardid FROM pg_catalog.pg_dist_partition;

CREATE VIEW pg_catalog.citus_shards AS
  SELECT logicalrelid AS table_name, 102008 + logicalrelid::oid::bigint AS shardid, logicalrelid::text AS shard_name,
    'worker-1' AS nodename, 5432 AS nodeport, pg_total_relation_size(logicalrelid) AS shard_size
  FROM pg_catalog.pg_dist_partition;
GRANT SELECT ON pg_catalog.citus_shards TO PUBLIC;
"""


@cache
def _files(server: Server) -> Path:
    """Where the server finds the extension."""
    folder = server.folder / "stand-in"
    made = folder / "extension"
    made.mkdir(parents=True)
    (made / "citus.control").write_text(_CONTROL)
    text = _SQL.replace("@FOLDER@", str(folder)).replace("@BIN@", str(BIN))
    (made / "citus--14.0.sql").write_text(text)
    if server.user is not None:
        for path in (folder, made, *made.iterdir()):
            shutil.chown(path, server.user)
    return folder


def create_extension(server: Server, database: str) -> None:
    with psycopg.connect(server.address(database), autocommit=True) as connection:
        connection.execute(f"SET extension_control_path = '$system:{_files(server)}'")
        connection.execute("CREATE EXTENSION citus")


def offer_extension(server: Server) -> str:
    """Every database of the server can have it from now on; gives the address of one that does."""
    server.admin(f"ALTER SYSTEM SET extension_control_path = '$system:{_files(server)}'")
    server.admin("SELECT pg_reload_conf()")
    server.admin("CREATE EXTENSION citus")
    return server.address()


def calls(server: Server, database: str) -> list[tuple[str, str, str]]:
    """What was called, about what, and in which transaction."""
    return server.admin("SELECT what, about, transaction FROM citus_calls.made ORDER BY n", database)
