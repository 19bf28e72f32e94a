"""The way to the table: one client, its time-outs and retries, and what its errors mean.

Throttling, broken connections and 5xx are tried again by the client itself, a bounded number of times with jittered
back-off; a transaction keeps its token over all attempts, so one whose answer was lost is not applied twice.
Credentials are the business of boto3 (environment, profile, role) and never part of the address.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)

from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.keys import MOST_SHARDS, SHARDS, Key
from recollect.domain.record import new_id
from recollect.errors import (
    Closed,
    Denied,
    InvalidSettings,
    NotARecollectStore,
    RecollectError,
    StoreBusy,
    StoreError,
    StoreFull,
    Unavailable,
)
from recollect.retry import Retry

T = TypeVar("T")
U = TypeVar("U")
ATTEMPTS = 6
READ_SECONDS = 20
THREADS = 8
KEYS_AT_ONCE, WRITES_AT_ONCE = 100, 25
MOST_ITEMS = 10_000  # of a page: a megabyte is less
MERGED_AT_ONCE = 1000
_BUSY = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "TransactionConflict",
    "TransactionConflictException",
}
# A transaction that is answered with one of these may have happened all the same.
_DOUBTFUL = {"TransactionInProgressException", "InternalServerError", "ServiceUnavailable"}
_DENIED = {"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"}


class TransactionCancelled(Exception):
    """A transaction whose conditions did not hold: the places of those that failed."""

    def __init__(self, places: list[int]) -> None:
        self.places = places


class TransactionContended(Exception):
    """A transaction that met another one, or too many requests: nothing was done, try again."""


class DynamoClient:
    def __init__(self, address: str, attempts: int = ATTEMPTS) -> None:
        self.table, options = _parsed(address)
        self.new_shards = _shards(options.get("shards"))
        self.label = f"the DynamoDB table '{self.table}'"
        config = Config(
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=5,
            read_timeout=READ_SECONDS,
            max_pool_connections=4 * THREADS,
            parameter_validation=False,  # the requests are ours, and it takes a tenth of the time
        )
        with self.translated_errors():
            self.client = _session(options.get("profile")).client(
                "dynamodb",
                region_name=options.get("region"),
                endpoint_url=options.get("endpoint"),
                config=config,
            )
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="recollect-dynamodb")
        self._closed = False

    # -- reading: always consistent ----------------------------------------------------------------------------------

    def get(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The items that are there, each as it is at some moment after the call."""
        wanted = list(dict.fromkeys(keys))
        pieces = [wanted[start : start + KEYS_AT_ONCE] for start in range(0, len(wanted), KEYS_AT_ONCE)]
        found: dict[Key, Item] = {}
        for some in self.at_once(self._get_some, pieces):
            found.update(some)
        return found

    def _get_some(self, keys: list[Key]) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        asked = [{"p": {"S": partition}, "s": {"S": sort}} for partition, sort in keys]
        for pause in pauses():
            request = {self.table: {"Keys": asked, "ConsistentRead": True}}
            with self.translated_errors():
                answer = self.client.batch_get_item(RequestItems=request)
            for raw in answer["Responses"].get(self.table, []):
                item = plain(raw)
                found[(item["p"], item["s"])] = item
            asked = answer.get("UnprocessedKeys", {}).get(self.table, {}).get("Keys", [])
            if not asked:
                return found
            pause()
        raise _busy()

    def pages(
        self,
        partition: str,
        condition: str = "",
        values: Item | None = None,
        *,
        forward: bool = True,
        keys_only: bool = False,
        first: int | None = None,
    ) -> Iterator[list[Item]]:
        """The items of a partition in order of their sort keys, page by page of up to a megabyte.

        With `first`, the first page has so many items and each that follows twice as many: for who may need no more.
        """
        request: Item = {
            "TableName": self.table,
            "ConsistentRead": True,
            "ScanIndexForward": forward,
            "KeyConditionExpression": "p = :p" + (f" AND {condition}" if condition else ""),
            "ExpressionAttributeValues": wire({":p": partition, **(values or {})}),
        }
        if keys_only:
            request["ProjectionExpression"] = "p, s"
        if first is not None:
            request["Limit"] = first
        while True:
            with self.translated_errors():
                answer = self.client.query(**request)
            yield [plain(raw) for raw in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
            if "Limit" in request:
                request["Limit"] = min(2 * request["Limit"], MOST_ITEMS)

    def merged_pages(
        self,
        partitions: Sequence[str],
        condition: str = "",
        values: Item | None = None,
        *,
        forward: bool = True,
        first: int | None = None,
    ) -> Iterator[list[Item]]:
        """The items of several partitions in one order; the first page of each is asked for side by side."""
        if len(partitions) == 1:
            yield from self.pages(partitions[0], condition, values, forward=forward, first=first)
            return
        share = first and min(first, 2 * -(-first // len(partitions)) + 1)
        walks = [self.pages(one, condition, values, forward=forward, first=share) for one in partitions]
        begun = self.at_once(lambda walk: next(walk, []), walks)
        shards = [chain(page, chain.from_iterable(rest)) for page, rest in zip(begun, walks, strict=True)]
        merged = heapq.merge(*shards, key=lambda item: str(item["s"]), reverse=not forward)
        size = first or MERGED_AT_ONCE
        while page := list(islice(merged, size)):
            yield page
            size = min(2 * size, MERGED_AT_ONCE)

    def query(self, partition: str, condition: str = "", values: Item | None = None) -> list[Item]:
        return [item for page in self.pages(partition, condition, values) for item in page]

    def everything(self) -> Iterator[Item]:
        request: Item = {"TableName": self.table, "ConsistentRead": True}
        while True:
            with self.translated_errors():
                answer = self.client.scan(**request)
            yield from (plain(raw) for raw in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def at_once(self, work: Callable[[T], U], given: Sequence[T]) -> list[U]:
        """The answers to several requests, asked side by side."""
        self.check_open()
        if len(given) <= 1:
            return [work(one) for one in given]
        try:
            asked = [self._pool.submit(work, one) for one in given]
        except RuntimeError:  # closed since we looked
            raise _closed() from None
        return [one.result() for one in asked]

    # -- writing -----------------------------------------------------------------------------------------------------

    def transact(self, writes: Sequence[Item], token: str) -> None:
        """All or none. Raises Cancelled when a condition does not hold, Contended when it is worth trying again.

        After Unavailable nobody knows: it may have happened.
        """
        try:
            with self.translated_errors(cancelled=True):
                self.client.transact_write_items(TransactItems=list(writes), ClientRequestToken=token)
        except ClientError as error:
            raise _cancelled(error) from None

    def transact_patiently(self, writes: Sequence[Item]) -> None:
        """The same for writes that may be made twice, tried again while it is contended."""
        for pause in pauses():
            try:
                self.transact(writes, new_id())
                return
            except TransactionContended:
                pause()
        raise TransactionContended("others were faster every time")

    def put_all(self, items: Iterable[Item]) -> None:
        """Each on its own, in no order."""
        self._write_all([{"PutRequest": {"Item": wire(item)}} for item in items])

    def delete_all(self, keys: Iterable[Key]) -> None:
        self._write_all([{"DeleteRequest": {"Key": wire({"p": p, "s": s})}} for p, s in keys])

    def _write_all(self, requests: list[Item]) -> None:
        for start in range(0, len(requests), WRITES_AT_ONCE):
            waiting = requests[start : start + WRITES_AT_ONCE]
            for pause in pauses():
                with self.translated_errors():
                    answer = self.client.batch_write_item(RequestItems={self.table: waiting})
                waiting = answer.get("UnprocessedItems", {}).get(self.table, [])
                if not waiting:
                    break
                pause()
            else:
                raise _busy()

    def put(self, item: Item, condition: str | None = None, **values: object) -> Item:
        return {"Put": {"TableName": self.table, "Item": wire(item), **_condition(condition, values)}}

    def delete(self, key: Key, condition: str | None = None, **values: object) -> Item:
        base = {"TableName": self.table, "Key": wire({"p": key[0], "s": key[1]})}
        return {"Delete": {**base, **_condition(condition, values)}}

    def update(self, key: Key, change: str, condition: str | None = None, **values: object) -> Item:
        base = {"TableName": self.table, "Key": wire({"p": key[0], "s": key[1]}), "UpdateExpression": change}
        return {"Update": {**base, **_condition(condition, values)}}

    def check(self, key: Key, condition: str, **values: object) -> Item:
        base = {"TableName": self.table, "Key": wire({"p": key[0], "s": key[1]})}
        return {"ConditionCheck": {**base, **_condition(condition, values)}}

    # -- errors and the end ------------------------------------------------------------------------------------------

    @contextmanager
    def translated_errors(self, *, cancelled: bool = False) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            if cancelled and error.response["Error"]["Code"] in ("TransactionCanceledException", *_BUSY):
                raise
            raise self._recollect_error(error) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise InvalidSettings(
                "there are no credentials for DynamoDB",
                remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role, as for any AWS program",
            ) from error
        except NoRegionError as error:
            raise InvalidSettings("no AWS region is set", remedy="add ?region=… to the address") from error
        except (HTTPClientError, ConnectionError) as error:
            raise Unavailable(f"{self.label} does not answer", remedy="check the network and the endpoint") from error
        except (BotoCoreError, ValueError) as error:
            raise InvalidSettings(
                f"{self.label} cannot be asked: {error}", remedy="see docs/guides/dynamodb.md"
            ) from error

    def _recollect_error(self, error: ClientError) -> RecollectError:
        code = error.response["Error"]["Code"]
        if code in _BUSY:
            return _busy()
        if code in _DOUBTFUL:
            return Unavailable(f"{self.label} is failing ({code})", remedy="try again")
        if code in _DENIED:
            return Denied(
                f"AWS refuses access to {self.label}: {code}", remedy="see docs/guides/dynamodb.md for the permissions"
            )
        if code == "ResourceNotFoundException":
            return NotARecollectStore(f"there is no table '{self.table}'", remedy="open it again to create it")
        if code == "ItemCollectionSizeLimitExceededException":
            return StoreFull(f"{self.label} is full", remedy="see docs/guides/dynamodb.md")
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= 500:
            return Unavailable(f"{self.label} is failing ({code})", remedy="try again")
        return StoreError(f"{self.label} refuses a request: {code}", remedy="this is a bug: please report it")

    def check_open(self) -> None:
        if self._closed:
            raise _closed()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.shutdown(wait=True)
            self.client.close()


@cache
def _session(profile: str | None) -> boto3.session.Session:
    """One for all stores of a process: it reads the descriptions of AWS, which takes a tenth of a second."""
    return boto3.session.Session(profile_name=profile)


def pauses(most: int = 12) -> Iterator[Callable[[], None]]:
    """So many chances to try, each with what pauses before the next."""
    return Retry(most, first_pause_seconds=0.005, longest_pause_seconds=1.0).chances()


def wire(item: Item) -> Item:
    return {
        name: {"S": value}
        if isinstance(value, str)
        else {"B": value}
        if isinstance(value, bytes)
        else {"N": str(value)}
        for name, value in item.items()
    }


def plain(raw: Item) -> Item:
    item: Item = {}
    for name, typed in raw.items():
        ((kind, value),) = typed.items()
        item[name] = int(value) if kind == "N" else value
    return item


def _condition(condition: str | None, values: Item) -> Item:
    given: Item = {"ConditionExpression": condition} if condition else {}
    if values:
        given["ExpressionAttributeValues"] = wire({f":{name}": value for name, value in values.items()})
    return given


def _cancelled(error: ClientError) -> Exception:
    reasons = [reason.get("Code", "None") for reason in error.response.get("CancellationReasons", [])]
    if any(code not in ("None", "ConditionalCheckFailed", *_BUSY) for code in reasons):
        named = next(code for code in reasons if code not in ("None", "ConditionalCheckFailed", *_BUSY))
        return StoreError(f"DynamoDB refuses a transaction: {named}", remedy="this is a bug: please report it")
    places = [place for place, code in enumerate(reasons) if code == "ConditionalCheckFailed"]
    return TransactionCancelled(places) if places else TransactionContended(error.response["Error"]["Code"])


def _closed() -> Closed:
    return Closed("this store is closed", remedy="open it again")


def _busy() -> StoreBusy:
    return StoreBusy("DynamoDB is asked for more than it allows", remedy="try again later, or raise the table's limits")


def _shards(given: str | None) -> int:
    """Over how many partitions the memories of a new organization are spread."""
    if given is None:
        return SHARDS
    if given.isdecimal() and 1 <= int(given) <= MOST_SHARDS:
        return int(given)
    raise InvalidSettings(
        "the number of shards in a DynamoDB address is wrong", remedy=f"write shards=1 to shards={MOST_SHARDS}"
    )


def _parsed(address: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(address)
    table = parts.netloc
    if "@" in parts.netloc:
        raise InvalidSettings(
            "a DynamoDB address holds no credentials", remedy="give them to boto3: see docs/guides/dynamodb.md"
        )
    given = parse_qs(parts.query, keep_blank_values=True)
    known = ("region", "endpoint", "profile", "shards")
    wrong = [name for name in given if name not in known]
    if not table or parts.path.strip("/") or wrong:
        raise InvalidSettings(
            f"'{wrong[0]}' is not part of a DynamoDB address" if wrong else "a DynamoDB address names its table",
            remedy="write dynamodb://table?region=eu-west-1, with &endpoint=http://… for another server",
        )
    return table, {name: values[-1] for name, values in given.items()}
