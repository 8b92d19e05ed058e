"""Which of the processes of a database leads: a lease, one row, by the database's own clock.

Only the leader writes statuses, and only it runs a node. A status is written in one transaction
with a look at that row, which another process has to change before it leads: so a leader that has
been replaced, and does not know it yet, writes nothing any more.
"""

from typing import Any

import psycopg

from enmasse.base.clock import Clock
from enmasse.store.database import Link, Place
from enmasse.store.leading import LEASE_S, Leading, replaced

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


class Lease(Leading):
    """This process's part in who leads."""

    def __init__(self, place: Place, clock: Clock) -> None:
        super().__init__(clock)
        self._place = place
        self._link = Link(place)

    async def _take(self) -> bool:
        with self._place.failures():
            async with self._link.use("begin") as cursor:
                await cursor.execute(_TAKE, {"holder": self._holder, "lease": LEASE_S})
                row = await cursor.fetchone()
                if row is None or self._term not in (None, row[0]):
                    return False
                await cursor.execute("commit")
                self._term = row[0]
                return True

    async def check(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """See, within a transaction, that this process leads until the transaction ends.

        Raises: Unavailable (STANDING_BY) if it does not; psycopg.Error.
        """
        await cursor.execute("select holder, term from enmasse_leader where id = 1 for share")
        if await cursor.fetchone() != (self._holder, self._term):
            raise replaced()

    async def close(self) -> None:
        """Let another process lead at once, if this one does, and leave the database."""
        try:
            await super().close()
        finally:
            await self._link.close()

    async def _give_back(self) -> None:
        with self._place.failures():
            async with self._link.use("begin") as cursor:
                await cursor.execute(
                    "update enmasse_leader set expires = '-infinity' where holder = %s",
                    [self._holder],
                )
                await cursor.execute("commit")
