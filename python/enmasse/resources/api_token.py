"""API tokens: Secrets that grant roles.

A token is the text `NAME.RANDOM`; NAME is that of its Secret, of type `enmasse.io/token` in the
namespace `enmasse-tokens`. The Secret contains only the digest of the token:

    sha256         SHA-256 of the token, 64 hexadecimal digits
    expires        expiry, RFC 3339; absent: never
    ROLE           comma-separated namespaces of the role; `*` is all
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, get_args

from enmasse.base.errors import Fault
from enmasse.resources.model import label

TOKEN_TYPE = "enmasse.io/token"
TOKENS_NAMESPACE = "enmasse-tokens"
"""Namespace of these Secrets. No role grants access to it."""

DIGEST = "sha256"
EXPIRES = "expires"
EVERYWHERE = "*"

Role = Literal["service-admin", "tenant-edit", "tenant-view", "metrics"]
"""Roles that a token can have in namespaces. Every token has the role `schema`."""

ROLES: tuple[Role, ...] = get_args(Role)

UNDIVIDED: tuple[Role, ...] = ("metrics",)
"""Roles for objects outside namespaces: granted in `*` only."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def token_faults(namespace: str, texts: Mapping[str, str]) -> list[Fault]:
    """Return errors of the Secret of a token."""
    found = []
    if namespace != TOKENS_NAMESPACE:
        found.append(
            Fault("metadata.namespace", f"must be {TOKENS_NAMESPACE} for type {TOKEN_TYPE}")
        )
    if not _DIGEST.fullmatch(texts.get(DIGEST, "")):
        found.append(
            Fault(f"data.{DIGEST}", "must be the SHA-256 of the token, 64 hexadecimal digits")
        )
    # Every fault is reported, so that one correction is enough.
    for name, text in texts.items():
        if name == DIGEST:
            continue
        try:
            if name == EXPIRES:
                expiry(text)
            elif name in ROLES:
                if namespaces(text) != {EVERYWHERE} and name in UNDIVIDED:
                    raise ValueError("must be *: the role applies to the whole platform")
            else:
                known = ", ".join((DIGEST, EXPIRES, *ROLES))
                raise ValueError(f"is unknown; known: {known}")
        except ValueError as error:
            found.append(Fault(f"data.{name}", str(error)))
    return found


def namespaces(text: str) -> frozenset[str]:
    """Return the namespaces in a comma-separated text.

    Raises: ValueError for a malformed namespace.
    """
    names = [name.strip() for name in text.split(",")]
    return frozenset(name if name == EVERYWHERE else label(name) for name in names if name)


def expiry(text: str) -> datetime:
    """Return the time of a text.

    Raises: ValueError if it is malformed or has no time zone.
    """
    problem = f"{text!r} is not a timestamp; write 2027-01-31T08:00:00Z"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(problem) from None
    if moment.tzinfo is None:
        raise ValueError(problem)
    return moment
