"""The answer of an authentication service: the identity, its rights, and their expiry.

Rights have the forms of the original: groups named after operations (`send_orders`), or a map from
addresses to operations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args
from urllib.parse import unquote

from enmasse.plan.model import EVERY_NAME, Right
from enmasse.resources.messaging_user import (
    PATTERNS_MAX,
    WILDCARDS_MAX,
    Operation,
    has_wildcard,
    pattern_of,
)

USER_BYTES_MAX = 255
"""Maximum length of a user name."""

_OF_GROUPS: dict[str, Operation] = {
    "send": "send",
    "recv": "recv",
    "consume": "recv",
    "create": "create",
}
_WHOLE: dict[str, Operation] = {"manage": "manage", "view": "view", "monitor": "view"}
_OPERATIONS: tuple[str, ...] = get_args(Operation)


class Refused(Exception):
    """The service refused the login. The text is for operators and contains no secret."""


class Unanswered(Exception):
    """The service did not respond. The text is for operators and contains no secret."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An identity, and its rights in addition to those of the MessagingUser with that name."""

    user: str
    rights: tuple[Right, ...] = ()
    expires: datetime | None = None
    """Expiry of its basis; None: no expiry."""

    renewable: bool = False
    """Whether repeating the question before that may renew it."""


def user_name(value: object, where: str) -> str:
    """Return a printable user name.

    Raises: Refused if it is malformed.
    """
    if not isinstance(value, str) or not value or not value.isprintable():
        raise Refused(f"{where} is not a user name: it must be printable text")
    if len(value.encode()) > USER_BYTES_MAX:
        raise Refused(f"{where} is longer than {USER_BYTES_MAX} bytes")
    return value


def rights_of_groups(groups: Iterable[object]) -> tuple[Right, ...]:
    """Return the rights of groups: `send_ADDRESS`, `recv_ADDRESS`, `create_ADDRESS`, `manage`,
    `view` (or `monitor`).

    Addresses are URL-encoded; a leading `/`, as in Keycloak's paths, is ignored. Other groups grant
    nothing.
    """
    return bounded(_of_group(group) for group in groups if isinstance(group, str))


def rights_of_map(addresses: Mapping[Any, Any]) -> tuple[Right, ...]:
    """Return the rights in a map from addresses to lists of operations; unknown operations grant
    nothing.
    """
    return bounded(_of_address(str(name), listed) for name, listed in addresses.items())


def bounded(rights: Iterable[Right | None]) -> tuple[Right, ...]:
    """Return the rights up to the maximum of one user; the rest is ignored."""
    found: list[Right] = []
    wildcards = 0
    for right in rights:
        if right is None:
            continue
        if has_wildcard(right.pattern):
            wildcards += 1
            if wildcards > WILDCARDS_MAX:
                continue
        found.append(right)
        if len(found) == PATTERNS_MAX:
            break
    return tuple(found)


def _of_group(group: str) -> Right | None:
    name = group.removeprefix("/")
    if name in _WHOLE:
        return Right(pattern=EVERY_NAME, operations=(_WHOLE[name],))
    operation, separator, address = name.partition("_")
    if not separator or operation not in _OF_GROUPS:
        return None
    return _right(unquote(address), (_OF_GROUPS[operation],))


def _of_address(address: str, listed: object) -> Right | None:
    if not isinstance(listed, list | tuple):
        return None
    operations = tuple(one for one in _OPERATIONS if one in map(str, listed))
    return _right(address, operations) if operations else None


def _right(address: str, operations: Iterable[Any]) -> Right | None:
    try:
        return Right(pattern=pattern_of(address), operations=tuple(operations))
    except ValueError:
        return None
