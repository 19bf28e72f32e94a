"""Who may do what: the one place where permissions are compared with what was granted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recollect.domain.access import ROLES
from recollect.domain.tenancy import ApiKey, User
from recollect.errors import Denied
from recollect.ports.records import Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever proved who they are: the scope they work in, the key they came with and its limits."""

    scope: Scope
    key: ApiKey

    @property
    def granted(self) -> frozenset[str]:
        return self.scope.granted or frozenset()


def authorize(principal: Principal, operation: str, permission: str) -> None:
    """Denied unless granted, with the reason."""
    if permission not in principal.granted:
        raise Denied(
            f"{operation} needs the permission '{permission}'",
            remedy=f"this key grants {', '.join(sorted(principal.granted)) or 'nothing'}; ask an admin for more",
            permission=permission,
        )


def require(scope: Scope, operation: str, permission: str) -> None:
    """The same for a part of an operation that needs more than the rest of it."""
    if scope.granted is not None and permission not in scope.granted:
        raise Denied(f"{operation} needs the permission '{permission}' for this", remedy="ask an admin for it")


def refuse_beyond_own(scope: Scope, wanted: Iterable[str]) -> None:
    """Nobody grants more than they have."""
    excess = sorted(set(wanted) - scope.granted) if scope.granted is not None else []
    if excess:
        raise Denied(
            f"you cannot grant '{excess[0]}', which you do not have", remedy="ask an owner", permission=excess[0]
        )


def refuse_higher(scope: Scope, user: User) -> None:
    """Nobody changes, ends or speaks for those who may do more than they."""
    if user.role is not None:
        refuse_beyond_own(scope, ROLES[user.role])
