"""The nodes of a PostgreSQL database: one row a node in a table of its own.

A heartbeat is an update of that row, by the database's clock: no lock of writers, no version and no
notification, so heartbeats of many nodes do not slow declared writes down.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, LiteralString

from enmasse.store.database import Link, Place
from enmasse.store.nodes import (
    Heartbeat,
    Identity,
    Registered,
    check_forgettable,
    heartbeat_of,
    replaced,
)

BEAT_S = 5.0
"""Interval of heartbeats."""

NODE_TABLE: LiteralString = """
create table if not exists enmasse_nodes (
    name text primary key, uid text not null unique, start bigint not null, mark text not null,
    place text not null, seen timestamptz, beats bigint not null default 0,
    heartbeat text not null default '{}'
) with (fillfactor = 50)
"""
"""`seen` is null after an orderly stop. Half of a page is free, so that a heartbeat changes neither
an index nor another page.
"""

_BEGIN: LiteralString = "begin; set local synchronous_commit = off"
"""A heartbeat that a failure of the database loses is followed by the next one."""

_LIST = """
select name, uid, start, mark, place, beats,
    extract(epoch from clock_timestamp() - seen)::float8, heartbeat
from enmasse_nodes order by name
"""
_ENTER = """
insert into enmasse_nodes (name, uid, start, mark, place, seen)
values (%(name)s, %(uid)s, %(start)s, %(mark)s, %(place)s, clock_timestamp())
on conflict do nothing
"""
_REPLACE = """
update enmasse_nodes set uid = %(uid)s, start = %(start)s, mark = %(mark)s, place = %(place)s,
    seen = clock_timestamp(), beats = beats + 1, heartbeat = '{}'
where name = %(name)s and uid = %(former_uid)s and start = %(former_start)s
    and mark = %(former_mark)s
"""
_BEAT = """
update enmasse_nodes set seen = clock_timestamp(), beats = beats + 1, heartbeat = %(heartbeat)s
where name = %(name)s and uid = %(uid)s and start = %(start)s and mark = %(mark)s
"""
_STOP = """
update enmasse_nodes set seen = null
where name = %(name)s and uid = %(uid)s and start = %(start)s and mark = %(mark)s
"""
_FORGET = "delete from enmasse_nodes where name = %s and mark = %s and beats = %s"


class NodeTable:
    """A `NodeRegistry` in a database."""

    def __init__(self, place: Place, link: Link) -> None:
        """Use a connection that others use too, for short statements."""
        self._place = place
        self._link = link

    @property
    def beat_interval_s(self) -> float:
        """Interval of heartbeats."""
        return BEAT_S

    async def list(self) -> Sequence[Registered]:
        """Return all nodes, by name."""
        with self._place.failures():
            async with self._link.use(_LIST) as cursor:
                return [_registered(row) for row in await cursor.fetchall()]

    async def claim(self, former: Registered | None, identity: Identity, place: str) -> bool:
        """Make `identity` the node of its name, if that still is `former`."""
        values: dict[str, object] = identity._asdict() | {"place": place}
        if former is not None:
            known = former.identity._asdict()
            values |= {f"former_{name}": value for name, value in known.items()}
        return await self._change("begin", _ENTER if former is None else _REPLACE, values)

    async def beat(self, identity: Identity, heartbeat: Heartbeat) -> None:
        """Record a heartbeat."""
        values = identity._asdict() | {"heartbeat": json.dumps(heartbeat.document())}
        if not await self._change(_BEGIN, _BEAT, values):
            raise replaced(identity)

    async def stop(self, identity: Identity) -> None:
        """Record that a node has stopped in order."""
        await self._change("begin", _STOP, identity._asdict())

    async def forget(self, name: str, *, dry_run: bool = False) -> None:
        """Delete a silent node."""
        nodes = await self.list()
        check_forgettable(name, nodes)
        node = next((one for one in nodes if one.identity.name == name), None)
        if node is None or dry_run:
            return
        # A heartbeat since then keeps it.
        values = [name, node.identity.mark, int(node.beat)]
        if not await self._change("begin", _FORGET, values):
            check_forgettable(name, await self.list())

    async def _change(self, begin: LiteralString, statement: LiteralString, values: Any) -> bool:
        """Change one row; return whether it was there."""
        with self._place.failures():
            async with self._link.use(begin) as cursor:
                await cursor.execute(statement, values)
                changed = cursor.rowcount == 1
                await cursor.execute("commit")
                return changed


def _registered(row: Sequence[Any]) -> Registered:
    name, uid, start, mark, place, beats, silent_s, heartbeat = row
    return Registered(
        Identity(name, uid, start, mark),
        place,
        str(beats),
        math.inf if silent_s is None else silent_s,
        heartbeat_of(heartbeat),
    )
