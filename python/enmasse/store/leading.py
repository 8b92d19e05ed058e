"""Leading among the processes of a store: taken once, renewed, lost at most once."""

import asyncio
import os
import secrets
import socket
from abc import ABC, abstractmethod

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable

log = structlog.get_logger(__name__)

LEASE_S = 10
"""How long a process that does not renew its lease goes on leading."""

MARGIN_S = 4.0
"""By how much sooner the leader itself counts its lease as over: time to close what is open before
another one takes it."""

RENEW_S = 3.0
"""How often the leader renews."""

RETRY_S = 1.0
"""How often the others try, and a leader whose renewal has failed."""


GIVE_BACK_S = 5.0
"""Longest wait for the lease to be given back; it runs out by itself."""


class Leading(ABC):
    """One process's part in who leads, by a lease that `take` takes and renews."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holder = new_holder()
        self._term: int | None = None
        """Counts who has led; while it stays, nobody else has since we took the lease."""

        self._renewed_s = clock.monotonic()
        """When the renewal began that was the last one to succeed."""

    @property
    def leads(self) -> bool:
        """Whether this process has taken the lease. It may have lost it since."""
        return self._term is not None

    async def take(self) -> bool:
        """Take the lease, or renew it, and say whether this process leads.

        Who has been replaced in between leads no more, even if the lease is free again.
        Raises: Unavailable if it cannot be known, within the time that the lease lasts.
        """
        # From before the store counts: so ours is over first.
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
        """Ask the store for the lease, as `take` says."""

    async def gain(self) -> None:
        """Return once this process leads."""
        while True:
            try:
                if await self.take():
                    log.info("leading", term=self._term)
                    return
            except Unavailable as error:
                log.warning("cannot ask who leads", reason=error.message)
            await self._clock.sleep(RETRY_S)

    async def keep(self, grace_s: float | None) -> None:
        """Renew the lease until cancelled.

        A leader that is cut off from the store does not hear of another one. It leads for
        `grace_s` after its own lease is over; None: for as long as it hears nothing.
        Raises: Unavailable (STANDING_BY) once another process has taken the lease, or may have.
        """
        # Who kept it until now may have asked in vain.
        pause_s = max(self._renewed_s + RENEW_S - self._clock.monotonic(), 0.0)
        while True:
            await self._clock.sleep(pause_s)
            left_s = None if grace_s is None else self._left_s(grace_s)
            try:
                # Asked even when it is too late: a machine that was asleep may lead on.
                async with asyncio.timeout(None if left_s is None else max(left_s, RETRY_S)):
                    if not await self.take():
                        raise replaced()
                pause_s = RENEW_S
            except (Unavailable, TimeoutError) as error:
                if isinstance(error, Unavailable) and error.code == Code.STANDING_BY:
                    raise
                reason = str(error) or "no answer"
                if grace_s is not None and self._left_s(grace_s) <= 0:
                    # Not ours any more: there is nothing to give back.
                    self._term = None
                    raise unheard(grace_s, reason) from error
                log.warning("the lease cannot be renewed", reason=reason)
                pause_s = RETRY_S

    async def close(self) -> None:
        """Let another process lead at once, if this one does."""
        if self._term is None:
            return
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._give_back()
        except (EnMasseError, TimeoutError) as error:
            reason = str(error) or "no answer"
            log.warning("the lease is not given back", reason=reason, lease_s=LEASE_S)

    @abstractmethod
    async def _give_back(self) -> None:
        """Tell the store that the lease is free, if it is still ours."""

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
        "another process of the same database leads; start this one again, to stand by",
    )


def unheard(grace_s: float, reason: str) -> Unavailable:
    """Return the error of a process that does not know whether it leads."""
    return Unavailable(
        Code.STANDING_BY,
        f"the lease is over, nothing has been heard from the store for {grace_s:g} s more"
        f" (leader-grace-s), and another process may lead: {reason}; start this one again",
    )
