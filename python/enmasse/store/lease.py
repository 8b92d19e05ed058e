"""Which of the processes of a database leads: a lease, one row, by the database's own clock.

Only the leader writes statuses, and only it runs a node. A status is written in one transaction
with a look at that row, which another process has to change before it leads: so a leader that has
been replaced, and does not know it yet, writes nothing any more.
"""

import os
import secrets
import socket
from typing import Any

import psycopg
import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Unavailable
from enmasse.store.database import Link, Place

log = structlog.get_logger(__name__)

LEASE_S = 10
"""How long a process that does not renew its lease goes on leading."""

RENEW_S = 3.0
"""How often the leader renews."""

RETRY_S = 1.0
"""How often the others try."""

_TAKE = """
insert into enmasse_leader as leader (id, holder, term, expires)
values (1, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(lease)s))
on conflict (id) do update set
    holder = excluded.holder,
    term = leader.term + (leader.holder <> excluded.holder)::int,
    expires = clock_timestamp() + make_interval(secs => %(lease)s)
where leader.holder = excluded.holder or leader.expires < clock_timestamp()
returning term
"""


class Lease:
    """This process's part in who leads."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._link = Link(place)
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._term: int | None = None

    async def take(self) -> bool:
        """Take the lease, or renew it, and say whether this process leads.

        Who has been replaced in between leads no more, even if the lease is free again.
        Raises: Unavailable if the database cannot be asked.
        """
        with self._place.failures():
            async with self._link.use("begin") as cursor:
                await cursor.execute(_TAKE, {"holder": self._holder, "lease": LEASE_S})
                row = await cursor.fetchone()
                if row is None or self._term not in (None, row[0]):
                    return False
                await cursor.execute("commit")
                self._term = row[0]
                return True

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

        While the database cannot be reached nothing is known: nobody can take the lease then.
        Raises: Unavailable (STANDING_BY) once another process has taken it.
        """
        while True:
            await self._clock.sleep(RENEW_S)
            try:
                if not await self.take():
                    raise _replaced()
            except Unavailable as error:
                if error.code == Code.STANDING_BY:
                    raise
                log.warning("the lease cannot be renewed", reason=error.message)

    async def check(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """See, within a transaction, that this process leads until the transaction ends.

        Raises: Unavailable (STANDING_BY) if it does not; psycopg.Error.
        """
        await cursor.execute("select holder, term from enmasse_leader where id = 1 for share")
        if await cursor.fetchone() != (self._holder, self._term):
            raise _replaced()

    async def close(self) -> None:
        """Let another process lead at once, if this one does."""
        try:
            if self._term is not None:
                with self._place.failures():
                    async with self._link.use("begin") as cursor:
                        await cursor.execute(
                            "update enmasse_leader set expires = '-infinity' where holder = %s",
                            [self._holder],
                        )
                        await cursor.execute("commit")
        except Unavailable as error:
            log.warning("the lease is not given back", reason=error.message, lease_s=LEASE_S)
        finally:
            await self._link.close()


def _replaced() -> Unavailable:
    return Unavailable(
        Code.STANDING_BY,
        "another process of the same database leads; start this one again, to stand by",
    )
