"""Requests in the name of another user: `kubectl --as`, by the headers of Kubernetes.

A user who may impersonate sees what the other one could do, and never exceeds its own rights: a
request must be allowed to both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from starlette.datastructures import Headers

from enmasse.auth.callers import Callers
from enmasse.auth.roles import OWNER_CALLER, Attributes, Caller, Rule
from enmasse.base.errors import Code, Denied, Invalid

_PREFIX = "impersonate-"
_USER = "impersonate-user"
NAME_LENGTH_MAX = 253


@dataclass(frozen=True, slots=True)
class Impersonating(Caller):
    """A user who sends a request in the name of another one."""

    by: Caller = OWNER_CALLER

    @property
    def is_owner(self) -> bool:
        """It may do everything only if both may."""
        return self.by.is_owner and Caller.is_owner.__get__(self)

    def rules(self, namespace: str) -> Iterator[Rule]:
        """Yield what the one it asks as may do; `may` also asks whether the one that asks may."""
        yield from Caller.rules(self, namespace)

    def may(self, asked: Attributes) -> bool:
        """Whether both may do that."""
        return self.by.may(asked) and Caller.may(self, asked)


def acting(caller: Caller, headers: Headers, callers: Callers) -> Caller:
    """Return whom a request of a caller is made as: the caller itself, or who its headers name.

    Groups and other attributes give nothing here: rights are those of the token of that name.

    Raises: Denied if the caller may not impersonate; Invalid if no user is named.
    """
    if not any(name.startswith(_PREFIX) for name in headers):
        return caller
    name = headers.get(_USER, "")[:NAME_LENGTH_MAX]
    if not (caller.is_owner or "service-admin" in caller.roles):
        raise Denied(
            Code.ACCESS_DENIED,
            f'users "{name}" is forbidden: User "{caller.name}" cannot impersonate resource "users"'
            ' in API group "" at the cluster scope; it needs the role service-admin',
        )
    if not name:
        raise Invalid(
            Code.REQUEST_INVALID,
            "headers Impersonate-* name no user: send Impersonate-User with the name of a token",
        )
    meant = callers.named(name)
    return Impersonating(meant.name, meant.roles, caller.expires, by=caller)
