"""Leading among the processes of a store: taken once, renewed, lost at most once."""

import os
import secrets
import socket
from abc import ABC, abstractmethod

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Unavailable

log = structlog.get_logger(__name__)

LEASE_S = 10
"""How long a process that does not renew its lease goes on leading."""

RENEW_S = 3.0
"""How often the leader renews."""

RETRY_S = 1.0
"""How often the others try."""


class Leading(ABC):
    """One process's part in who leads, by a lease that `take` takes and renews."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holder = new_holder()
        self._term: int | None = None
        """Counts who has led; while it stays, nobody else has since we took the lease."""

    @property
    def leads(self) -> bool:
        """Whether this process has taken the lease. It may have lost it since."""
        return self._term is not None

    @abstractmethod
    async def take(self) -> bool:
        """Take the lease, or renew it, and say whether this process leads.

        Who has been replaced in between leads no more, even if the lease is free again.
        Raises: Unavailable if it cannot be known.
        """

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

    async def keep(self) -> None:
        """Renew the lease until cancelled.

        While the store cannot be reached nothing is known: nobody can take the lease then.
        Raises: Unavailable (STANDING_BY) once another process has taken it.
        """
        while True:
            await self._clock.sleep(RENEW_S)
            try:
                if not await self.take():
                    raise replaced()
            except Unavailable as error:
                if error.code == Code.STANDING_BY:
                    raise
                log.warning("the lease cannot be renewed", reason=error.message)


def new_holder() -> str:
    """Return a name for this process that no other has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def replaced() -> Unavailable:
    """Return the error of a process that does not lead."""
    return Unavailable(
        Code.STANDING_BY,
        "another process of the same database leads; start this one again, to stand by",
    )
