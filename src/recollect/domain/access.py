"""Who may do what: permissions, the roles that bundle them, and the one who asks.

Denied unless granted: every operation names the permission it needs, and a key or a role lists what it grants.
`operate` is about the whole store, all tenants in it; only the owners of the tenant that runs the service have it.
"""

from __future__ import annotations

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
