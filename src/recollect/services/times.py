"""Times in requests and replies, in the time zone of the caller.

A time without a zone and a date without a time are in the zone of the caller, else of the user that the request names,
else of the store. A bare date is the start of the day where something begins, and includes the whole day where
something ends (`until`, `as_of`, `valid_to`, `expires_at`). Of an hour that occurs twice because clocks go back, the
first is meant; a time in an hour that clocks skip is as long after the last existing one. Records, exports and cursors
are always in UTC: requests are converted to UTC here, and only replies to the zone (`in_zone`), in one place, by
`invoke`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, PlainSerializer, ValidationInfo, WithJsonSchema, WrapValidator
from pydantic.functional_validators import ModelWrapValidatorHandler

from recollect.domain.record import RECORDS
from recollect.domain.tenancy import User
from recollect.errors import InvalidInput
from recollect.ports.query import OneOf, Query

if TYPE_CHECKING:
    from recollect.services.tenant import Tenant

_BARE_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")
_OUTSIDE = "must lie between the years 1 and 9999 in UTC"
KNOWN_SECONDS = 30.0  # how long the zone of a user is cached
MOST_KNOWN = 10_000


class RequestTimeZone:
    """The time zone in which a request is read. With neither store nor zone, times stay as given."""

    def __init__(self, tenant: Tenant | None = None, zone: str | None = None) -> None:
        self._tenant, self._zone = tenant, zone
        self.user: str | None = None

    @property
    def zone(self) -> str | None:
        if self._tenant is None:
            return self._zone
        return zone_for(self._tenant, self.user)


class UnparsedTime(datetime):
    """A time on its way to a server, which knows the zone: the original text is sent as it is."""

    words: str


def zone_for(tenant: Tenant, user: str | None = None) -> str:
    """The zone of the caller, else of the user that the request names, else of the store."""
    if tenant.scope.timezone is not None:
        return tenant.scope.timezone
    for id in (tenant.scope.actor, user):
        zone = zone_of(tenant, id) if id is not None else None
        if zone is not None:
            return zone
    return tenant.timezone


def zone_of(tenant: Tenant, user: str) -> str | None:
    """The zone of a user, None if there is none; users with UTC have not chosen one and get that of the store."""
    key = (tenant.scope.organization_id, user)
    known = tenant.zones.get(key)
    if known is None or known[1] < time.monotonic():
        try:
            found = tenant.get(User, user)
        except InvalidInput:  # no id of anybody: what is wrong with it is said where it is used
            return None
        known = _noted(tenant, user, found.timezone if found else None)
    return tenant.timezone if known[0] == "UTC" else known[0]


def read_zones(tenant: Tenant, users: Collection[str]) -> None:
    """Read the zones of many users that are about to be asked for, in one go."""
    organization, moment = tenant.scope.organization_id, time.monotonic()
    new = {user for user in users if tenant.zones.get((organization, user), (None, 0.0))[1] < moment}
    if len(new) < 2:
        return
    try:
        found = dict(tenant.select(Query(User, (OneOf("id", tuple(sorted(new))),)), ("id", "timezone")))
    except InvalidInput:  # as above, one of them
        return
    for user in new:
        _noted(tenant, user, found.get(user))


def _noted(tenant: Tenant, user: str, zone: str | None) -> tuple[str | None, float]:
    if len(tenant.zones) >= MOST_KNOWN:
        tenant.zones.clear()
    known = tenant.zones[tenant.scope.organization_id, user] = zone, time.monotonic() + KNOWN_SECONDS
    return known


def _read(value: Any, handler: Any, info: ValidationInfo, *, whole_day: bool) -> datetime:
    moment: datetime = handler(value)
    asking = info.context.get("asking") if isinstance(info.context, Mapping) else None
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        zone = asking.zone if asking is not None else "UTC"
        if zone is None:
            return _as_said(value, moment)
        if whole_day and _is_bare_date(value):
            return _end_of(moment, ZoneInfo(zone))
        return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except OverflowError:
        raise ValueError(_OUTSIDE) from None


def _end_of(day: datetime, zone: ZoneInfo) -> datetime:
    """The end of a day; of the last one in the calendar, the last moment that there is."""
    try:
        return (day + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        if day.year == MAXYEAR:
            return datetime.max.replace(tzinfo=UTC)
        raise


def _is_bare_date(value: Any) -> bool:
    if isinstance(value, str):
        return _BARE_DATE.fullmatch(value) is not None
    return isinstance(value, date) and not isinstance(value, datetime)


def _as_said(value: Any, moment: datetime) -> UnparsedTime:
    said = UnparsedTime(*moment.timetuple()[:6], moment.microsecond)
    said.words = value if isinstance(value, str) else value.isoformat()
    return said


def _written(moment: datetime) -> str:
    return moment.words if isinstance(moment, UnparsedTime) else moment.isoformat()


_SCHEMA = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}
_JSON = PlainSerializer(_written, return_type=str, when_used="json")
From = Annotated[datetime, WrapValidator(partial(_read, whole_day=False)), _JSON, WithJsonSchema(_SCHEMA)]
"""The start of something: a bare date is the start of that day."""
Through = Annotated[datetime, WrapValidator(partial(_read, whole_day=True)), _JSON, WithJsonSchema(_SCHEMA)]
"""The end of something: a bare date includes the whole day."""


def reading_whose(value: Any, handler: ModelWrapValidatorHandler[Any], info: ValidationInfo) -> Any:
    """While a request is read that names a user, that user's zone is meant, unless the one who asks has one."""
    asking = info.context.get("asking") if isinstance(info.context, Mapping) else None
    named = value.get("user") if isinstance(value, dict) else None
    if asking is None or not isinstance(named, str):
        return handler(value)
    before, asking.user = asking.user, named
    try:
        return handler(value)
    finally:
        asking.user = before


class _ShownInZone:
    """Marks a text, or the fields of a record, whose times are shown in the zone."""


MomentText = Annotated[str, _ShownInZone()]
RecordFields = Annotated[dict[str, Any], _ShownInZone()]


def in_zone(reply: Any, zone: str) -> Any:
    """The reply with its times in a zone, with offset. Free JSON of users is never changed."""
    if zone != "UTC" and isinstance(reply, BaseModel):
        _turn(reply, ZoneInfo(zone))
    return reply


def _turn(reply: BaseModel, zone: ZoneInfo) -> None:
    marked = _marked(type(reply))
    for name, value in reply.__dict__.items():
        if isinstance(value, datetime):
            reply.__dict__[name] = _local(value, zone)
        elif name in marked and isinstance(value, str):
            reply.__dict__[name] = _local_text(value, zone)
        elif name in marked and isinstance(value, dict):
            reply.__dict__[name] = {
                field: _local_text(inner, zone) if field in _moments() and isinstance(inner, str) else inner
                for field, inner in value.items()
            }
        elif isinstance(value, BaseModel):
            _turn(value, zone)
        elif isinstance(value, list | dict):
            for inner in value if isinstance(value, list) else value.values():
                if isinstance(inner, BaseModel):
                    _turn(inner, zone)


@cache
def _marked(reply: type[BaseModel]) -> frozenset[str]:
    fields = reply.model_fields.items()
    return frozenset(name for name, field in fields if any(isinstance(one, _ShownInZone) for one in field.metadata))


@cache
def _moments() -> frozenset[str]:
    """The names of fields that are moments, in whichever record."""
    return frozenset(c.name for record in RECORDS.values() for c in record.columns() if c.type == "moment")


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    try:
        return moment.astimezone(zone) if moment.tzinfo is not None else moment
    except OverflowError:  # the first and last days of the calendar have no local time everywhere
        return moment


def _local_text(text: str, zone: ZoneInfo) -> str:
    try:
        return _local(datetime.fromisoformat(text), zone).isoformat()
    except ValueError:
        return text
