"""Leadership among the processes of a store: taken once, renewed, lost at most once."""

import asyncio
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable

log = structlog.get_logger(__name__)

LEASE_S = 10
"""Duration of a lease without renewal."""

MARGIN_S = 4.0
"""How much earlier the leader itself considers its lease expired: time to close connections before
another process takes over.
"""

RENEW_S = 3.0
"""Renewal interval of the leader."""

RETRY_S = 1.0
"""Retry interval of stand-bys, and of a leader whose renewal failed."""


GIVE_BACK_S = 5.0
"""Maximum wait for releasing the lease; it expires by itself."""


class Leading(ABC):
    """One process's view of leadership, by a lease that `take` takes and renews."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holder = new_holder()
        self._term: int | None = None
        """Counts changes of leader; unchanged means no other process has led since we took the
        lease.
        """

        self._renewed_s = clock.monotonic()
        """Start time of the last successful renewal."""

    @property
    def leads(self) -> bool:
        """Whether this process has taken the lease. It may have lost it since."""
        return self._term is not None

    async def take(self) -> bool:
        """Take or renew the lease; return whether this process leads.

        A process that was replaced leads no more, even if the lease is free again.

        Raises: Unavailable if that is unknown within the duration of the lease.
        """
        # Measured before the store measures, so our lease expires first.
        asked_s = self._clock.monotonic()
        try:
            async with asyncio.timeout(LEASE_S):
                leads = await self._take()
        except TimeoutError:
            why = f"the store has not answered for {LEASE_S} s"
            raise Unavailable(Code.STORE_UNUSABLE, why) from None
        if leads:
            self._renewed_s = asked_s
        return leads

    @abstractmethod
    async def _take(self) -> bool:
        """Request the lease from the store, as in `take`."""

    async def gain(self, may_lead: Callable[[], Awaitable[bool]]) -> None:
        """Return once this process leads; it asks for the lease while `may_lead`."""
        while True:
            try:
                if await may_lead() and await self.take():
                    log.info("leading", term=self._term)
                    return
            except Unavailable as error:
                log.warning("cannot ask who leads", reason=error.message)
            await self._clock.sleep(RETRY_S)

    async def keep(self, grace_s: float | None) -> None:
        """Renew the lease until cancelled.

        A leader that cannot reach the store does not learn of another one. It leads for `grace_s`
        after its own lease expired; None: until it reaches the store.

        Raises: Unavailable (STANDING_BY) once another process has taken the lease, or may have.
        """
        # The former leader may have renewed unsuccessfully.
        pause_s = max(self._renewed_s + RENEW_S - self._clock.monotonic(), 0.0)
        while True:
            await self._clock.sleep(pause_s)
            left_s = None if grace_s is None else self._left_s(grace_s)
            try:
                # Try even when it is late: after a suspended machine resumes, its lease may still
                # be ours.
                async with asyncio.timeout(None if left_s is None else max(left_s, RETRY_S)):
                    if not await self.take():
                        raise replaced()
                pause_s = RENEW_S
            except (Unavailable, TimeoutError) as error:
                if isinstance(error, Unavailable) and error.code == Code.STANDING_BY:
                    raise
                reason = str(error) or "no answer"
                if grace_s is not None and self._left_s(grace_s) <= 0:
                    # Not ours any more: nothing to release.
                    self._term = None
                    raise leadership_unknown(grace_s, reason) from error
                log.warning("the lease cannot be renewed", reason=reason)
                pause_s = RETRY_S

    async def close(self) -> None:
        """Release leadership, if this process has it."""
        if self._term is None:
            return
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._give_back()
        except (EnMasseError, TimeoutError) as error:
            reason = str(error) or "no answer"
            log.warning("the lease was not released", reason=reason, lease_s=LEASE_S)

    @abstractmethod
    async def _give_back(self) -> None:
        """Mark the lease as free in the store, if it is still ours."""

    def _left_s(self, grace_s: float) -> float:
        over_s = self._renewed_s + LEASE_S - MARGIN_S + grace_s
        return over_s - self._clock.monotonic()


def new_holder() -> str:
    """Return a name for this process that no other has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def replaced() -> Unavailable:
    """Return the error of a process that does not lead."""
    return Unavailable(
        Code.STANDING_BY,
        "another process of the same database leads; restart this one as a stand-by",
    )


def leadership_unknown(grace_s: float, reason: str) -> Unavailable:
    """Return the error of a process that does not know whether it leads."""
    return Unavailable(
        Code.STANDING_BY,
        f"the lease expired and the store has been unreachable for {grace_s:g} s"
        f" since (leader-grace-s); another process may lead: {reason}; restart"
        " this process",
    )
