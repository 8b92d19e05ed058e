"""Requests in the name of another user: `kubectl --as`, by the headers of Kubernetes.

An impersonating user sees what the other user may do, and never exceeds its own rights: a request
must be allowed to both.
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
    """A user who sends a request in the name of another user."""

    by: Caller = OWNER_CALLER

    @property
    def is_owner(self) -> bool:
        """Whether both are the owner."""
        return self.by.is_owner and Caller.is_owner.__get__(self)

    def rules(self, namespace: str) -> Iterator[Rule]:
        """Yield the rules of the impersonated user; `may` also checks the impersonating one."""
        yield from Caller.rules(self, namespace)

    def may(self, asked: Attributes) -> bool:
        """Whether both may do it."""
        return self.by.may(asked) and Caller.may(self, asked)


def acting(caller: Caller, headers: Headers, callers: Callers) -> Caller:
    """Return the effective caller: the caller itself, or the user in its impersonation headers.

    Groups and other impersonated attributes have no effect: rights are those of the user's token.

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
    target = callers.named(name)
    return Impersonating(target.name, target.roles, caller.expires, by=caller)
