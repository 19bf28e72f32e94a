"""Pages for those who keep the service: the access log, users, keys and settings; and everybody's own account."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from pydantic import BaseModel

from recollect.domain.access import PERMISSIONS, ROLES
from recollect.domain.audit import AccessOperation
from recollect.domain.record import now
from recollect.errors import InvalidInput
from recollect.interfaces.http.console.page_context import Page, PageContext, TemplateValues
from recollect.settings import Settings, shown

OPERATIONS_LOGGED = get_args(AccessOperation)
FILTERS = ("memory", "operation", "by", "action", "since", "until")


def audit(context: PageContext) -> TemplateValues:
    chosen = {name: context.query(name).strip() for name in FILTERS}
    success = {"worked": True, "failed": False}.get(context.query("outcome"))
    facts: TemplateValues = {"chosen": chosen | {"outcome": context.query("outcome")}, "operations": OPERATIONS_LOGGED}
    facts |= {"entries": [], "next": None, "problem": None}
    try:
        page = context.call("log", limit=60, after=context.query("after"), success=success, **chosen)
        context.learn_names(one.actor for one in page.entries)
        return facts | {"entries": page.entries, "next": page.next}
    except InvalidInput as error:
        return facts | {"problem": error}


def users(context: PageContext) -> TemplateValues:
    with_role = bool(context.query("with_role"))
    page = context.call("user.list", after=context.query("after"), with_role=with_role, limit=50)
    removed = context.call("user.list", removed=True, limit=50).users
    roles = _grantable_roles(context)
    return {"users": page.users, "next": page.next, "roles": roles, "with_role": with_role, "removed": removed}


def _grantable_roles(context: PageContext) -> list[str]:
    return [role for role, granted in ROLES.items() if granted <= context.principal.granted]


def account(context: PageContext) -> TemplateValues:
    """Who one is here, and how to change one's own password."""
    return {"introduced": context.introduced, "is_user": context.principal.key.user_id is not None}


def keys(context: PageContext) -> TemplateValues:
    found = context.call("key.list", revoked=True).keys
    context.learn_names(one.user for one in found)
    granted = [name for name in PERMISSIONS if name in context.principal.granted]
    over = {key.id for key in found if key.revoked_at or (key.expires_at and key.expires_at <= now())}
    usable, ended = ([key for key in found if (key.id in over) == is_over] for is_over in (False, True))
    return {"usable": usable, "ended": ended, "over": over, "permissions": granted}


def settings_page(settings: Settings, context: PageContext) -> TemplateValues:
    """The settings as they are in force, without secrets; only the operator's people see them."""
    is_operator = context.principal.scope.organization_id == context.service.operator
    told = _flat(settings.model_dump(mode="json")) if is_operator else []
    return {"settings": told, "described": _descriptions(Settings), "is_operator": is_operator}


def _descriptions(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        found[prefix + name] = field.description or ""
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= _descriptions(field.annotation, f"{prefix}{name}.")
    return found


_SECRET = ("key", "password", "secret", "token")


def _flat(values: TemplateValues, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found += _flat(value, f"{prefix}{name}.")
        elif any(word in name for word in _SECRET) and not name.endswith("_env"):
            found.append((prefix + name, "(not shown)" if value else value))
        else:
            found.append((prefix + name, shown(value) if isinstance(value, str) else value))
    return found


def pages(settings: Settings) -> tuple[Page, ...]:
    return (
        Page("/audit", "audit.html", "log", audit),
        Page("/users", "users.html", "user.revise", users),
        Page("/account", "account.html", "user.change_password", account),
        Page("/keys", "keys.html", "key.list", keys),
        Page("/settings", "settings.html", "doctor", partial(settings_page, settings)),
    )
