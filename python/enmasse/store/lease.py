"""Leadership among the processes of a database: a lease in one row, by the database's clock.

Only the leader writes statuses and runs a node. It writes a status in one transaction with a check
of that row, which another process must change before it leads. A leader that was replaced without
knowing it therefore writes nothing.
"""

from typing import Any, LiteralString

import psycopg

from enmasse.base.clock import Clock
from enmasse.store.database import LOCK_TIMEOUT_S, Link, Place
from enmasse.store.leading import LEASE_S, Leading, replaced

_BEGIN: LiteralString = f"begin; set local lock_timeout = '{LOCK_TIMEOUT_S}s'"
"""A write of a status has the row until it ends, and then the lease is still ours."""

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
    """One process's view of leadership."""

    def __init__(self, place: Place, link: Link, clock: Clock) -> None:
        """Use a connection that others use too, for short statements."""
        super().__init__(clock)
        self._place = place
        self._link = link

    async def _take(self) -> bool:
        with self._place.failures():
            async with self._link.use(_BEGIN) as cursor:
                await cursor.execute(_TAKE, {"holder": self._holder, "lease": LEASE_S})
                row = await cursor.fetchone()
                if row is None or self._term not in (None, row[0]):
                    return False
                await cursor.execute("commit")
                self._term = row[0]
                return True

    async def check(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """Check, within a transaction, that this process leads until the transaction ends.

        Raises: Unavailable (STANDING_BY) if it does not; psycopg.Error.
        """
        await cursor.execute("select holder, term from enmasse_leader where id = 1 for share")
        if await cursor.fetchone() != (self._holder, self._term):
            raise replaced()

    async def _give_back(self) -> None:
        with self._place.failures():
            async with self._link.use(_BEGIN) as cursor:
                await cursor.execute(
                    "update enmasse_leader set expires = '-infinity' where holder = %s",
                    [self._holder],
                )
                await cursor.execute("commit")
