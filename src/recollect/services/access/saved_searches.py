"""Saved searches of whoever is signed in, among their preferences: named, opened again, removed."""

from __future__ import annotations

from pydantic import Field

from recollect.domain.record import JsonObject, Text
from recollect.domain.tenancy import User
from recollect.errors import Denied, InvalidInput, NotFound
from recollect.ports.steps import Update
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged, rewritten

PREFERENCE = "saved_searches"
MOST_SAVED = 50
LONGEST_SEARCH = 1000


class SaveSearchRequest(Request):
    """A search to keep. One with the same name is replaced."""

    name: Text = Field(min_length=1, max_length=80, description="What to call it")
    search: Text = Field(
        min_length=1,
        max_length=LONGEST_SEARCH,
        description="The question and filters as in the address of the search page: q=pool&kinds=fact",
    )


class RemoveSearchRequest(Request):
    """One of your saved searches."""

    name: Text = Field(min_length=1, max_length=80, description="What it is called")


class SearchesRequest(Request):
    """Your saved searches."""


class SavedSearch(Reply):
    name: str
    search: str


class SavedSearches(Reply):
    """What somebody searches again and again, by name."""

    searches: list[SavedSearch]


def searches(tenant: Tenant, request: SearchesRequest) -> SavedSearches:
    """List your own saved searches, by name."""
    return _view(_saved(_signed_in(tenant)))


def save_search(tenant: Tenant, request: SaveSearchRequest) -> SavedSearches:
    """Save a search under a name, for yourself."""
    user = _signed_in(tenant)
    saved = _saved(user) | {request.name.strip(): request.search.lstrip("?")}
    if not request.name.strip():
        raise InvalidInput("a saved search needs a name", remedy="give it one")
    if len(saved) > MOST_SAVED:
        raise InvalidInput(f"there are {MOST_SAVED} saved searches already", remedy="remove one that you do not need")
    return _store(tenant, user, "user.save_search", saved)


def remove_search(tenant: Tenant, request: RemoveSearchRequest) -> SavedSearches:
    """Remove one of your saved searches."""
    user = _signed_in(tenant)
    saved = _saved(user)
    if saved.pop(request.name, None) is None:
        raise NotFound("there is no such saved search", remedy="see user.searches for their names")
    return _store(tenant, user, "user.remove_search", saved)


def _signed_in(tenant: Tenant) -> User:
    user = tenant.get(User, tenant.scope.actor) if tenant.scope.actor is not None else None
    if user is None:
        raise Denied("searches are saved for users", remedy="sign in, or use a key that belongs to a user")
    return user


def _saved(user: User) -> dict[str, str]:
    """What is kept under that name; anything else there is somebody's own and is left out."""
    kept = user.preferences.get(PREFERENCE)
    found = kept.items() if isinstance(kept, dict) else ()
    return {name: search for name, search in found if isinstance(search, str)}


def _store(tenant: Tenant, user: User, action: str, saved: dict[str, str]) -> SavedSearches:
    changed: JsonObject = {**user.preferences, PREFERENCE: dict(saved)}
    entry = logged(tenant, "update", action, None, user=user.id)
    commit(tenant, [Update(rewritten(user, tenant, preferences=changed)), entry])
    return _view(saved)


def _view(saved: dict[str, str]) -> SavedSearches:
    ordered = sorted(saved.items(), key=lambda one: one[0].casefold())
    return SavedSearches(searches=[SavedSearch(name=name, search=search) for name, search in ordered])
