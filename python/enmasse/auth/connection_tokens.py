"""Tokens that open one messaging connection from a page of the console. In memory.

A token is for one user of one address space, valid once and for a minute, and only for the person
that asked for it. Another process does not know it, and a restart forgets it.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.ids import new_token

VALID_S = 60.0
"""Validity of a token."""

UNUSED_MAX = 1000
"""Unused tokens of all people; beyond it the oldest becomes invalid."""

UNUSED_OF_ONE_MAX = 20
"""Unused tokens of one person; beyond it the oldest becomes invalid."""


@dataclass(frozen=True, slots=True)
class ConnectionGrant:
    """What a token allows."""

    holder: str
    """The caller of the API that it was issued to."""

    namespace: str
    space: str
    uid: str
    """Of the space, so that a token is not for a later space of the same name."""

    user: str | None
    """The messaging user; None: anonymous."""


class Issued(NamedTuple):
    """A new token, which is shown once."""

    token: str
    expires: datetime


class _Unused(NamedTuple):
    grant: ConnectionGrant
    until_s: float


class ConnectionTokens:
    """The unused tokens of this process, by their digests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unused: OrderedDict[bytes, _Unused] = OrderedDict()

    def issue(self, grant: ConnectionGrant) -> Issued:
        """Return a new token."""
        self._remove_expired()
        own = [key for key, one in self._unused.items() if one.grant.holder == grant.holder]
        for key in own[: max(len(own) - UNUSED_OF_ONE_MAX + 1, 0)]:
            del self._unused[key]
        while len(self._unused) >= UNUSED_MAX:
            self._unused.popitem(last=False)
        token = new_token()
        self._unused[_digest(token)] = _Unused(grant, self._clock.monotonic() + VALID_S)
        return Issued(token, self._clock.now() + timedelta(seconds=VALID_S))

    def redeem(self, token: str, holder: str) -> ConnectionGrant | None:
        """Return what a token allows and make it invalid; None if it is unknown, used, expired or
        that of another person.

        The lookup is by digest, so its duration reveals nothing about valid tokens.
        """
        self._remove_expired()
        found = self._unused.pop(_digest(token), None)
        return found.grant if found is not None and found.grant.holder == holder else None

    def _remove_expired(self) -> None:
        now_s = self._clock.monotonic()
        while self._unused:
            key, oldest = next(iter(self._unused.items()))
            if oldest.until_s > now_s:
                return
            del self._unused[key]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
