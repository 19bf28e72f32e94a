"""Making, checking, mending and backing up the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, WaiterError

from recollect.adapters.records.common import migrations
from recollect.adapters.records.common.ddl import taken_twice
from recollect.adapters.records.common.record_tables import dangling
from recollect.adapters.records.dynamodb import codec as items_of
from recollect.adapters.records.dynamodb import tallies
from recollect.adapters.records.dynamodb.client import DynamoClient, TransactionCancelled, TransactionContended, pauses
from recollect.adapters.records.dynamodb.codec import Item, StoredRecord
from recollect.adapters.records.dynamodb.counts import Counts, counts_of
from recollect.adapters.records.dynamodb.keys import SCHEMA, SEPARATOR, TENANTS, Key, Keys
from recollect.adapters.records.dynamodb.log import LAYOUT, MOST_WRITES, TAKEN, LogHead, TenantLog
from recollect.adapters.records.dynamodb.transaction import derived
from recollect.domain.record import RECORDS, Record, new_id
from recollect.domain.tenancy import Organization
from recollect.errors import DamagedData, NotARecollectStore, StoreBusy, Unavailable, Unsupported, WrongKey
from recollect.ports.records import Problem

if TYPE_CHECKING:
    from recollect.adapters.records.dynamodb.store import DynamoStore

_KEYS = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}]
_TYPES = [{"AttributeName": name, "AttributeType": "S"} for name in ("p", "s")]
_LAYOUTS = 9000  # the numbers of layouts among those of the migrations: a program that knows none refuses the table
_NOT_OFFERED = ("UnknownOperationException", "ValidationException", "AccessDeniedException", "InvalidAction")


def migrate(store: DynamoStore) -> list[str]:
    """The table, if it is not there; the index entries that a newer program wants; what was left half deleted."""
    dynamo = store.dynamo
    _ensure_table(dynamo)
    done, layout = _recorded(dynamo)
    missing = [one for one in migrations.migrations() if migrations.pending(one, done, dynamo.label)]
    if missing and done:
        _refuse_taken_twice(store, missing)
    if layout != LAYOUT:  # first, so that programs which know it not are refused from now on
        dynamo.put_all([{"p": SCHEMA, "s": f"{_LAYOUTS + LAYOUT}", "c": "", "n": f"layout {LAYOUT}"}])
    if missing and done:
        mend(store)  # entries and guards follow from the declarations; fields that came later have their defaults
    dynamo.put_all({"p": SCHEMA, "s": f"{one.number:04d}", "c": one.checksum, "n": one.name} for one in missing)
    for item in dynamo.query(TENANTS):
        if item.get("x"):
            store.tenant(item["s"]).head()
    return [one.name for one in missing]


def _recorded(dynamo: DynamoClient) -> tuple[dict[int, str], int]:
    """The migrations that were done, and the layout of the table; a layout that is not known is a newer migration."""
    found = {int(item["s"]): item["c"] for item in dynamo.query(SCHEMA)}
    layouts = [number for number in found if _LAYOUTS < number <= _LAYOUTS + LAYOUT]
    for number in layouts:
        del found[number]
    return found, max(layouts, default=_LAYOUTS + 1) - _LAYOUTS


def _refuse_taken_twice(store: DynamoStore, missing: Sequence[migrations.Migration]) -> None:
    """Before anything is changed: a key that comes with these migrations may be held by one record only."""
    new = [step for one in missing for step in one.steps if step["do"] == "add_unique"]
    for id in (item["s"] for item in store.dynamo.query(TENANTS) if new):
        keys = store.tenant(id).keys_at(store.tenant(id).head())
        found = _of_tenant(store.dynamo, keys)
        stored = [_readable(store, keys, table, item, found) for (table, _), item in found.records.items()]
        held: dict[Key, str] = {}
        for record in (one.record for one in stored if one.record is not None):
            for key in keys.unique(record):
                if held.setdefault(key, record.id) != record.id:
                    table, fields = _named(key)
                    raise taken_twice({"table": table, "unique": {"fields": fields.split("+")}}, store.dynamo.label)


def examine(address: str) -> str:
    """What is there, in a sentence; makes nothing."""
    dynamo = DynamoClient(address, attempts=2)
    try:
        table = _described(dynamo)
        if table is None:
            return "the table will be made when it is first used"
        _check_keys(dynamo, table)
        done, _ = _recorded(dynamo)
        return f"the table is {table['TableStatus'].lower()}; {migrations.outstanding(done, dynamo.label)}"
    finally:
        dynamo.close()


def _ensure_table(dynamo: DynamoClient) -> None:
    table = _described(dynamo)
    with dynamo.translated_errors():
        if table is None:
            _create(dynamo)
            return
        if table["TableStatus"] != "ACTIVE":
            _wait(dynamo)
    _check_keys(dynamo, table)


def _described(dynamo: DynamoClient) -> Item | None:
    with dynamo.translated_errors():
        try:
            return dict(dynamo.client.describe_table(TableName=dynamo.table)["Table"])
        except dynamo.client.exceptions.ResourceNotFoundException:
            return None


def _check_keys(dynamo: DynamoClient, found: Item) -> None:
    keys = [(key["AttributeName"], key["KeyType"]) for key in found["KeySchema"]]
    if sorted(keys) != [("p", "HASH"), ("s", "RANGE")]:
        raise NotARecollectStore(f"the table '{dynamo.table}' has other keys than ours", remedy="name another table")


def _create(dynamo: DynamoClient) -> None:
    with suppress(dynamo.client.exceptions.ResourceInUseException):  # another process makes it this moment
        dynamo.client.create_table(
            TableName=dynamo.table, BillingMode="PAY_PER_REQUEST", KeySchema=_KEYS, AttributeDefinitions=_TYPES
        )
    _wait(dynamo)
    try:
        dynamo.client.update_continuous_backups(
            TableName=dynamo.table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NOT_OFFERED:
            raise  # a local server has no such thing; a role may be kept from it: then its owner decides


def _wait(dynamo: DynamoClient) -> None:
    try:
        dynamo.client.get_waiter("table_exists").wait(
            TableName=dynamo.table, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
        )
    except WaiterError as error:
        raise Unavailable(f"{dynamo.label} does not become ready", remedy="look at it in the AWS console") from error


def backup(dynamo: DynamoClient, target: Path) -> None:
    """DynamoDB's own: a copy inside AWS, under the name of the path."""
    dynamo.check_open()
    with dynamo.translated_errors():
        try:
            dynamo.client.create_backup(TableName=dynamo.table, BackupName=target.name)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("UnknownOperationException", "InvalidAction"):
                raise Unsupported("this server makes no backups", remedy="use `recollect export`") from error
            raise


# -- checking and mending ----------------------------------------------------------------------------------------------


@dataclass
class TenantItems:
    """Everything the table has of one tenant."""

    head: Item | None = None
    records: dict[tuple[str, str], Item] = field(default_factory=dict)
    parts: dict[Key, bytes] = field(default_factory=dict)
    derived: dict[Key, Item] = field(default_factory=dict)
    logged: dict[tuple[str, str], int] = field(default_factory=dict)
    staged: list[Key] = field(default_factory=list)

    def take(self, kind: str, words: list[str], item: Item) -> None:
        key = (item["p"], item["s"])
        if kind == "h":
            self.head = item
        elif kind == "r":
            self.records[(words[0], item["s"])] = item
        elif kind == "p":
            self.parts[key] = item["b"]
        elif kind in "iuc":
            self.derived[key] = {name: value for name, value in item.items() if name not in "ps"}
        elif kind == "x":
            self.staged.append(key)
        elif kind == "l":
            for table, id, seq, _ in items_of.logged(item):
                self.logged[(table, id)] = max(seq, self.logged.get((table, id), 0))


def verify(store: DynamoStore) -> list[Problem]:
    """One walk through the table; what looks wrong is looked at again, because others may write meanwhile."""
    for item in store.dynamo.query(TENANTS):
        store.tenant(item["s"]).head()  # finish what is under way
    tables, listed = _everything(store.dynamo)
    problems: list[Problem] = []
    for id in sorted({*tables, *listed}):
        if any(_check(store, id, tables.get(id, TenantItems()), id in listed)):
            problems += _settled_check(store, store.tenant(id))
    return problems


def _settled_check(store: DynamoStore, tenant: TenantLog) -> list[Problem]:
    for pause in pauses(40):
        before = tenant.head()
        found = _of_tenant(store.dynamo, tenant.keys_at(before))
        problems = list(_check(store, tenant.id, found, tenant.id in store.tenants()))
        if not problems or tenant.head().is_at(before):
            return problems
        pause()
    raise StoreBusy("the table is being written to all the time", remedy="verify when it is quieter")


def _everything(dynamo: DynamoClient) -> tuple[dict[str, TenantItems], list[str]]:
    tables: dict[str, TenantItems] = {}
    listed = []
    for item in dynamo.everything():
        tenant, _, rest = item["p"].partition(SEPARATOR)
        kind, *words = rest.split(SEPARATOR)
        if item["p"] == TENANTS:
            listed.append(item["s"])
        elif item["p"] != SCHEMA:
            tables.setdefault(tenant, TenantItems()).take(kind[:1], words, item)
    return tables, listed


def _check(store: DynamoStore, tenant_id: str, found: TenantItems, is_listed: bool) -> Iterator[Problem]:
    tenant = store.tenant(tenant_id)
    keys = tenant.keys_at(tenant.as_head(found.head))
    if is_listed != any(not item.get("z") for item in found.records.values()):
        what = "is listed as a tenant but is not there" if is_listed else "has records but is not listed as a tenant"
        yield Problem(what, "organization", tenant_id, tenant_id)
    living: dict[tuple[str, str], Record] = {}
    read: list[StoredRecord] = []
    used: set[Key] = set()
    last = found.head["q"] if found.head else 0
    for (table, sort), item in found.records.items():
        id = item.get("d") or sort
        used.update(items_of.part_keys(keys, table, item))
        try:
            stored = _read(store, keys, table, item, found)
        except (DamagedData, ValueError, KeyError) as error:
            yield Problem(f"cannot be read: {type(error).__name__}", table, id, tenant_id)
            continue
        read.append(stored)
        record = stored.record
        if record is not None:
            living[(table, record.id)] = record
            id = record.id
            if not items_of.is_open(record):
                yield Problem(f"cannot be read: {WrongKey.__name__}", table, id, tenant_id)
        if (item["p"], item["s"]) != keys.record(table, id):
            yield Problem("lies where it is not looked for", table, id, tenant_id)
        if item["q"] > last:
            yield Problem("its seq lies beyond the head", table, id, tenant_id)
        if found.logged.get((table, id)) != item["q"]:
            yield Problem("its last change is not in the log", table, id, tenant_id)
    for record in living.values():
        for name in dangling(record, lambda to, id: (to, id) in living):
            yield Problem(f"its {name} points at nothing", record.shape.table, record.id, tenant_id)
    yield from _check_derived(keys, tenant_id, read, found)
    yield from _check_counts(tenant, read, found)
    for _, sort in found.parts.keys() - used:
        yield Problem("a part that belongs to no record", sort.split(SEPARATOR)[0], organization_id=tenant_id)


def _read(store: DynamoStore, keys: Keys, table: str, item: Item, found: TenantItems) -> StoredRecord:
    record = RECORDS[table]
    pieces = [found.parts[key] for key in items_of.part_keys(keys, table, item)]
    made = items_of.stored(store.codec(record), record, item, pieces)
    if made.record is not None and items_of.is_open(made.record):
        record.model_validate(made.record.__dict__)
    return made


def _check_derived(
    keys: Keys, tenant_id: str, records: Sequence[StoredRecord], found: TenantItems
) -> Iterator[Problem]:
    wanted = wanted_items(keys, records)
    for key, item in wanted.items():
        if _is_right(keys, key, found.derived.get(key), item):
            continue
        if _is_tally(key):
            yield _miscounted(key, tenant_id)
        else:
            (table, name), wrong = _named(key), "wrong" if key in found.derived else "missing"
            yield Problem(f"its index entry for {name} is {wrong}", table, item["d"], tenant_id, "index")
    for key in sorted(found.derived.keys() - wanted.keys()):
        if _is_tally(key):
            yield _miscounted(key, tenant_id)
            continue
        (table, name), id = _named(key), found.derived[key]["d"]
        yield Problem(f"an index entry for {name} that leads nowhere", table, id, tenant_id, "index")


def _is_right(keys: Keys, key: Key, item: Item | None, wanted: Item) -> bool:
    if item is None or not _is_tally(key):
        return item == wanted
    return tallies.is_right(keys, key, item["d"], wanted["d"])


def _is_kept(keys: Keys, key: Key, item: Item | None, wanted: Item) -> bool:
    """Whether mending leaves it: right, and if it is a tally also with its groups."""
    is_known = item is None or not _is_tally(key) or tallies.read(keys, key, item["d"]) is not None
    return _is_right(keys, key, item, wanted) and (is_known or item == wanted)


def _is_tally(key: Key) -> bool:
    return key[0].split(SEPARATOR)[1][:1] == "c"


def _miscounted(key: Key, tenant_id: str) -> Problem:
    table, field = (*key[0].split(SEPARATOR)[2:], "")[:2]
    value = key[1].removesuffix(SEPARATOR)
    what = f"whose {field} is '{value}'" if field else f"of the hour {value}"
    return Problem(f"the records {what} are counted wrong", table if field else "organization", "", tenant_id, "index")


def _named(key: Key) -> tuple[str, str]:
    """The table and the field, or the fields of a unique key, that an entry or a guard is about."""
    words = key[0].split(SEPARATOR)[2:]
    first, _, rest = key[1].partition(SEPARATOR)
    if len(words) == 2:
        return words[0], words[1]
    return (words[0], first) if words else (first, rest.partition(SEPARATOR)[0])


def _check_counts(tenant: TenantLog, records: Iterable[StoredRecord], found: TenantItems) -> Iterator[Problem]:
    kept = tenant.as_head(found.head).counts() if found.head else None
    if kept is not None and kept != _recounted(records):
        yield Problem("the numbers of its records are counted wrong", "organization", tenant.id, tenant.id, "index")


def _recounted(records: Iterable[StoredRecord]) -> Counts:
    return counts_of(one.record for one in records if one.record is not None)


def wanted_items(keys: Keys, records: Sequence[StoredRecord]) -> dict[Key, Item]:
    """The entries and guards that these records should have."""
    wanted: dict[Key, Item] = {}
    sharing: dict[Key, set[str]] = {}
    for stored in records:
        if stored.record is not None:
            made = derived(keys, stored.record, stored.hashes)
            wanted |= {key: item for key, item in made.items() if key[0] != TENANTS}
            for key in keys.gathered(stored.record, stored.hashes):
                sharing.setdefault(key, set()).add(stored.record.id)
    living = [one.record for one in records if one.record is not None]
    texts = {key: SEPARATOR.join(sorted(ids)) for key, ids in sharing.items()} | tallies.texts_of(keys, living)
    return wanted | {key: {"d": text} for key, text in texts.items()}


def mend(store: DynamoStore) -> list[str]:
    """Entries and guards made again from the records; staged writes and parts that nobody owns thrown away."""
    store.dynamo.check_open()
    done = []
    tables, listed = _everything(store.dynamo)
    for id in sorted({*tables, *listed}):
        count = _mended(store, store.tenant(id))
        if count:
            done.append(f"{id}: {count} index entries, guards and parts put right")
    return done


def _mended(store: DynamoStore, tenant: TenantLog) -> int:
    """Only while the head stands still, so that no newer entry is lost."""
    for pause in pauses(40):
        head = tenant.head()
        keys = tenant.keys_at(head)
        writes, counts = _mending(store, tenant.id, keys, _of_tenant(store.dynamo, keys))
        still, given = tenant.unchanged(head)
        fence = store.dynamo.check(tenant.keys.head, still, **given)
        if not head.incarnation:
            fence = store.dynamo.check(tenant.keys.head, "attribute_not_exists(p)")
        raw = counts.encoded()
        try:
            _write_fenced(store.dynamo, fence, writes)
            if head.incarnation and raw is not None and head.counts() != counts:
                store.dynamo.transact([tenant.recounted(head, raw)], new_id())
                tenant.learn(None)
                return len(writes) + 1
            return len(writes)
        except (TransactionCancelled, TransactionContended):
            pause()
    raise StoreBusy("the table is being written to all the time", remedy="mend when it is quieter")


def _mending(store: DynamoStore, tenant_id: str, keys: Keys, found: TenantItems) -> tuple[list[Item], Counts]:
    """The writes that put entries, guards, parts and staged writes right, and what the head should count."""
    used: set[Key] = set()
    read: list[StoredRecord] = []
    for (table, _), item in found.records.items():
        used.update(items_of.part_keys(keys, table, item))
        read.append(_readable(store, keys, table, item, found))
    wanted = wanted_items(keys, read)
    listed = (TENANTS, tenant_id)
    if any(isinstance(one.record, Organization) and one.record.id == tenant_id for one in read):
        wanted[listed] = {"d": tenant_id}
    has = {**found.derived, **({listed: {"d": tenant_id}} if listed in store.dynamo.get([listed]) else {})}
    writes: list[Item] = [
        store.dynamo.put({"p": key[0], "s": key[1], **item})
        for key, item in wanted.items()
        if not _is_kept(keys, key, has.get(key), item)
    ]
    surplus = [*(has.keys() - wanted.keys()), *(found.parts.keys() - used), *found.staged]
    return writes + [store.dynamo.delete(key) for key in surplus], _recounted(read)


def _write_fenced(dynamo: DynamoClient, fence: Item, writes: Sequence[Item]) -> None:
    for start in range(0, len(writes), MOST_WRITES):
        dynamo.transact_patiently([fence, *writes[start : start + MOST_WRITES]])


def modernize(store: DynamoStore, tenant: TenantLog, head: LogHead) -> None:
    """Bring a tenant of an older layout to this one: entries, guards and counts are made again from its records, which
    stay where they are. A list in an order that is read along entries needs one for each record.

    Killed at any moment, it is begun again by whoever comes next, who writes only what is not there yet. First the head
    is taken, by which programs of older layouts write no more, and programs of this one wait for this; then what is
    missing or different is written; then one write to the head makes it count. What only the first layout had goes
    last. Raises TransactionCancelled if another process was faster.
    """
    dynamo, keys = store.dynamo, tenant.keys_at(head)
    if head.layout < LAYOUT:
        _take_for_layout(dynamo, keys.head, head)
    marks = dynamo.get([keys.head]).get(keys.head, {})
    if "b" in marks:
        is_building = "i = :i AND attribute_exists(b) AND attribute_not_exists(x)"
        writes, counts = _mending(store, tenant.id, keys, _of_tenant(dynamo, keys, with_first_layout=False))
        _write_fenced(dynamo, dynamo.check(keys.head, is_building, i=head.incarnation), writes)
        raw = counts.encoded()
        change, counted = ("SET n = :n REMOVE b", {"n": raw}) if raw is not None else ("REMOVE b, n", {})
        dynamo.transact([dynamo.update(keys.head, change, is_building, i=head.incarnation, **counted)], new_id())
    if "o" in marks:
        for partition in keys.first_layout:
            for page in dynamo.pages(partition, keys_only=True):
                dynamo.delete_all([(item["p"], item["s"]) for item in page])
        dynamo.transact([dynamo.update(keys.head, "REMOVE o", "attribute_exists(p)")], new_id())


def _take_for_layout(dynamo: DynamoClient, key: Key, head: LogHead) -> None:
    is_older = "i = :i AND attribute_not_exists(x) AND "
    marks: Item = {"v": LAYOUT, "b": 1}
    if head.layout == 1:
        is_older, marks = is_older + "attribute_not_exists(v)", {**marks, "o": 1, **TAKEN}
    else:
        is_older, marks = is_older + "v = :older", {**marks, "older": head.layout}
    change = "SET " + ", ".join(f"{name} = :{name}" for name in marks if name != "older")
    dynamo.transact([dynamo.update(key, change, is_older, i=head.incarnation, **marks)], new_id())


def _readable(store: DynamoStore, keys: Keys, table: str, item: Item, found: TenantItems) -> StoredRecord:
    """Without a record for what is damaged: `verify` names it, mending cannot bring it back."""
    try:
        return _read(store, keys, table, item, found)
    except (DamagedData, ValueError, KeyError):
        return StoredRecord(None, item["q"])


def _of_tenant(dynamo: DynamoClient, keys: Keys, *, with_first_layout: bool = True) -> TenantItems:
    found = TenantItems()
    partitions = [*keys.parts, *keys.staged, keys.log, keys.head[0], *keys.derived_partitions()]
    partitions += [partition for table in RECORDS for partition in keys.records(table)]
    partitions += keys.first_layout if with_first_layout else ()
    for items in dynamo.at_once(dynamo.query, partitions):
        for item in items:
            _, kind, *words = item["p"].split(SEPARATOR)
            found.take(kind[:1], words, item)
    return found
