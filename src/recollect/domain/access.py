"""Who may do what: permissions, the roles that bundle them, and the one who asks.

Denied unless granted: every operation names the permission it needs, and a key or a role lists what it grants.
`operate` is about the whole store, all tenants in it; only the owners of the tenant that runs the service have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Permission = Literal["read", "write", "govern", "delete", "admin", "operate"]
Role = Literal["reader", "writer", "curator", "admin", "owner"]

PERMISSIONS: tuple[str, ...] = get_args(Permission)
ROLES: dict[str, frozenset[str]] = {
    "reader": frozenset({"read"}),
    "writer": frozenset({"read", "write"}),
    "curator": frozenset({"read", "write", "govern", "delete"}),
    "admin": frozenset({"read", "write", "govern", "delete", "admin"}),
    "owner": frozenset(PERMISSIONS),
}

RESTRICTED: frozenset[str] = frozenset({"read", "write", "govern", "delete"})
"""What a restricted key or account can grant: what concerns a whole organization is not in its reach."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """What part of an organization somebody reaches: only what belongs to this user, agent, project or namespace.

    `shared` are the projects whose common memories the user reads and writes, too. What belongs to nobody is the
    organization's: everybody in it can read it. services/restrictions.py says what belongs to whom.
    """

    user: str | None = None
    agent: str | None = None
    project: str | None = None
    namespace: str | None = None
    shared: frozenset[str] = frozenset()
