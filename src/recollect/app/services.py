"""A memory behind a service, as the settings name it: what `open` gives for an address of one."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from recollect.errors import InvalidSettings
from recollect.settings import Settings, service_key, shown

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect

OF_A_CLIENT = frozenset(
    {"store", "api_key", "api_key_file", "remote", "readonly", "timezone", "organization", "actor", "background"}
)
"""What the opener may set for a service; the service has settings of its own."""


def connected(settings: Settings, given: Collection[str]) -> Recollect:
    """A client of the service in the settings; `given` are those that the opener named."""
    from recollect.interfaces.remote import RemoteRecollect
    from recollect.interfaces.remote_exchange import Patience

    if stray := sorted(set(given) - OF_A_CLIENT):
        raise InvalidSettings(
            f"{', '.join(stray)} cannot be chosen for {shown(settings.store)}: the service has settings of its own",
            remedy="leave it out, or set it where the service runs",
        )
    wait = settings.remote
    mem = RemoteRecollect(
        settings.store,
        service_key(settings),
        patience=Patience(wait.connect_seconds, wait.read_seconds, wait.total_seconds, wait.retries),
        timezone=settings.timezone if "timezone" in settings.model_fields_set else None,
        readonly=settings.readonly,
    )
    _refuse_others(mem, settings)
    return mem


def _refuse_others(mem: Recollect, settings: Settings) -> None:
    """A key is of one organization and acts for whom it was made: who names another would be misled."""
    if settings.actor is not None:
        raise InvalidSettings(
            "over a service, the key says who acts", remedy="leave out the actor (--actor, RECOLLECT_ACTOR)"
        )
    named = settings.organization if "organization" in settings.model_fields_set else None
    if named is not None and getattr(mem, "_organization", named) != named:
        raise InvalidSettings(
            f"the key is not of the organization '{named}'", remedy="leave the organization out, or use a key of it"
        )
