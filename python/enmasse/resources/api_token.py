"""Tokens of the API: Secrets that say who may ask for what.

A token is text, `NAME.RANDOM`; NAME is that of its Secret, of type `enmasse.io/token` in the
namespace `enmasse-tokens`. The Secret holds no token, only the digest that it is known by:

    sha256         SHA-256 of the token, 64 hexadecimal digits
    expires        when it ends, RFC 3339; left out: never
    ROLE           namespaces that the bearer has the role in, divided by commas; `*` is all
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, get_args

from enmasse.base.errors import Fault
from enmasse.resources.model import label

TOKEN_TYPE = "enmasse.io/token"
TOKENS_NAMESPACE = "enmasse-tokens"
"""Where such Secrets are. No role reaches into it."""

DIGEST = "sha256"
EXPIRES = "expires"
EVERYWHERE = "*"

Role = Literal["service-admin", "tenant-edit", "tenant-view", "metrics"]
"""What a token can be given in namespaces. The role `schema` has whoever has any token."""

ROLES: tuple[Role, ...] = get_args(Role)

UNDIVIDED: tuple[Role, ...] = ("metrics",)
"""Roles whose object belongs to no namespace: they are given in `*` or not at all."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def token_faults(namespace: str, texts: Mapping[str, str]) -> list[Fault]:
    """Return what is wrong with the Secret of a token."""
    found = []
    if namespace != TOKENS_NAMESPACE:
        found.append(
            Fault("metadata.namespace", f"must be {TOKENS_NAMESPACE} for type {TOKEN_TYPE}")
        )
    if not _DIGEST.fullmatch(texts.get(DIGEST, "")):
        found.append(
            Fault(f"data.{DIGEST}", "must be the SHA-256 of the token, 64 hexadecimal digits")
        )
    for name, text in texts.items():
        if name == DIGEST:
            continue
        try:
            if name == EXPIRES:
                expiry(text)
            elif name in ROLES:
                if namespaces(text) != {EVERYWHERE} and name in UNDIVIDED:
                    raise ValueError("must be *: it is about the whole platform")
            else:
                known = ", ".join((DIGEST, EXPIRES, *ROLES))
                raise ValueError(f"is unknown; known are {known}")
        except ValueError as error:
            found.append(Fault(f"data.{name}", str(error)))
    return found


def namespaces(text: str) -> frozenset[str]:
    """Return the namespaces that a text lists.

    Raises: ValueError for what is no namespace.
    """
    names = [name.strip() for name in text.split(",")]
    return frozenset(name if name == EVERYWHERE else label(name) for name in names if name)


def expiry(text: str) -> datetime:
    """Return the moment that a text says.

    Raises: ValueError if it is none, or says no time zone.
    """
    problem = f"{text!r} is no moment: write it as 2027-01-31T08:00:00Z"
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(problem) from None
    if moment.tzinfo is None:
        raise ValueError(problem)
    return moment
