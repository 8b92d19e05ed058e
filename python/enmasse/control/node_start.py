"""The start of a node: it takes its identity in the store, and keeps it in its data folder."""

import math

import structlog

from enmasse.base import node_file
from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Conflict
from enmasse.base.ids import new_uid
from enmasse.base.node_file import NodeRecord
from enmasse.store import Store
from enmasse.store.nodes import (
    Claim,
    Identity,
    NodeRegistry,
    Registered,
    claim_of,
    running,
)

log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""Interval of looking for heartbeats of a former process."""

ATTEMPTS = 3
"""Attempts to take an identity that changes concurrently."""


async def start_node(data: DataDir, name: str | None, store: Store, clock: Clock) -> Identity:
    """Return the identity of this start; `name` by default is that of the folder, or of the host.

    The folder must be locked, and its messages be of this store. A former process elsewhere may
    still run: this waits until that is decided, at most SILENT_S.

    Raises: Conflict (NODE_TAKEN) if another process or folder is the node; Invalid if there is no
        name; Unavailable if store or folder is unusable.
    """
    registry = store.nodes
    record = node_file.read(data.node)
    if record is not None and record.store != store.identity:
        record = None  # A node of another store, where the folder has left no messages.
    name = name or (record.name if record else node_file.default_name())
    place = node_file.place_of(data.path)
    for _ in range(ATTEMPTS):
        claim = await _decided(data, record, name, registry, clock, place)
        mark = new_uid()
        uid = claim.uid or new_uid()
        # Before the store: after a crash in between the next start recognises the mark.
        record = _announced(record, store.identity, claim, uid, mark)
        node_file.write(data.node, record)
        identity = Identity(name, uid, claim.start, mark)
        if await registry.claim(claim.former, identity, place):
            node_file.write(data.node, NodeRecord(store.identity, name, uid, claim.start, mark))
            log.debug("node starts", node=name, uid=uid, start=claim.start)
            _tell_replaced(claim.former, identity)
            return identity
    raise Conflict(
        Code.NODE_TAKEN,
        f"node {name!r} is started by several processes at the same time; start one of them",
    )


def _tell_replaced(former: Registered | None, identity: Identity) -> None:
    """Warn that a folder took over the name of another one: the messages there are not served."""
    if former is None or former.identity.uid == identity.uid:
        return
    silent_s = former.silent_s
    log.warning(
        "this data folder replaces that of another node",
        node=identity.name,
        replaced=former.identity.uid,
        silent_s=None if silent_s is None or math.isinf(silent_s) else round(silent_s),
        had_stopped=former.is_stopped,
    )


def _announced(
    record: NodeRecord | None, store: str, claim: Claim, uid: str, mark: str
) -> NodeRecord:
    """Return the record of a folder that is about to ask the store for the next start. Pure."""
    if record is None or record.uid != uid:
        return NodeRecord(store, claim.name, uid, 0, "", mark)
    if claim.former is not None and claim.former.identity.mark == record.next_mark:
        # The last start reached the store, and its process ended before it wrote that down.
        _, _, start, reached = claim.former.identity
        return NodeRecord(store, claim.name, uid, start, reached, mark)
    return record._replace(next_mark=mark)


async def _decided(
    data: DataDir,
    record: NodeRecord | None,
    name: str,
    registry: NodeRegistry,
    clock: Clock,
    place: str,
) -> Claim:
    """Return the claim of this start, once no other process can be the node."""
    first: Registered | None = None
    while True:
        claim = claim_of(record, name, await registry.list(), str(data.node))
        former = claim.former
        # In the same place the lock of the folder is proof enough.
        if former is None or former.is_silent or (place and former.place == place):
            return claim
        if first is None:
            log.info("waiting for a former process of this node to be silent", node=name)
            first = former
        elif former.beat != first.beat:
            raise running(name)
        await clock.sleep(LOOK_S)
