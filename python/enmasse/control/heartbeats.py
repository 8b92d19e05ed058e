"""The heartbeats of this process: what it says of itself, and its cordon."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import structlog

from enmasse import __version__
from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.engines import Engine, Proof
from enmasse.resources import Key, MessagingNode
from enmasse.resources.model import INFRA_NAMESPACE
from enmasse.store import Store
from enmasse.store.nodes import (
    EXCEPTIONS_MAX,
    AddressProofs,
    Heartbeat,
    Identity,
    has_free_other,
)

log = structlog.get_logger(__name__)

FEATURE_LEVEL = 1
"""The highest level of fields and encodings that this version reads. It is raised with each one
that the former version does not read.
"""

LOOK_S = 1.0
"""Interval of looking for a changed cordon, which is in memory, and of sending a heartbeat that
failed again.
"""

STOP_S = 1.0
"""Maximum wait for recording an orderly stop."""


class Facts(NamedTuple):
    """What the process knows of itself when a heartbeat is due."""

    leads: bool
    endpoints: Mapping[str, Mapping[str, Any]]
    proof: Proof | None


class Member(NamedTuple):
    """A node of a store."""

    store: Store
    identity: Identity
    zone: str


class Heartbeats:
    """Sends the heartbeats of a node, and applies its cordon."""

    def __init__(
        self,
        member: Member,
        engine: Engine,
        clock: Clock,
        facts: Callable[[], Facts],
        cordon: Callable[[bool], None],
    ) -> None:
        """`facts` are read for each heartbeat; `cordon` refuses new connections, or admits them."""
        self._store, self._identity, self._zone = member
        self._engine = engine
        self._clock = clock
        self._facts = facts
        self._cordon = cordon
        self.is_cordoned = False
        """Whether the node refuses new connections."""

        self._measured: tuple[float, int] | None = None
        """Time and number of messages of the last measurement."""

        self._rate = 0.0
        self._proofs = AddressProofs()
        self._proof: Proof | None = None

    def follow_cordon(self) -> bool:
        """Apply the declared cordon; return whether it changed. Without the resource the cordon
        stays as it is: the leader creates the resource again, with the cordon of the heartbeat.
        """
        key = Key("MessagingNode", INFRA_NAMESPACE, self._identity.name)
        node = self._store.get(key)
        if not isinstance(node, MessagingNode) or node.spec.cordoned == self.is_cordoned:
            return False
        self.is_cordoned = wanted = node.spec.cordoned
        self._cordon(wanted)
        log.info("cordoned" if wanted else "uncordoned", node=self._identity.name)
        return True

    async def may_lead(self) -> bool:
        """Whether this process may ask for the lease: a cordoned one leaves it to a free node.

        Raises: Unavailable if the store is.
        """
        if not self.is_cordoned:
            return True
        return not has_free_other(self._identity.name, await self._store.nodes.list())

    async def run(self) -> None:
        """Send heartbeats until cancelled: periodically, and at once if cordon or role change.

        Raises: Conflict (NODE_REPLACED) once another start is the node.
        """
        due_s, led = self._clock.monotonic(), False
        while True:
            changed = self.follow_cordon() or led != self._facts().leads
            if changed or self._clock.monotonic() >= due_s:
                led = self._facts().leads
                was_sent = await self._beat()
                # Two intervals without a heartbeat would be longer than SILENT_S.
                pause_s = self._store.nodes.beat_interval_s if was_sent else LOOK_S
                due_s = self._clock.monotonic() + pause_s
            await self._clock.sleep(LOOK_S)

    async def stop(self) -> None:
        """Record the stop. Without it the node counts as running until it has been silent."""
        with suppress(EnMasseError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._store.nodes.stop(self._identity)

    async def _beat(self) -> bool:
        """Send a heartbeat; return whether the store has it."""
        try:
            await self._store.nodes.beat(self._identity, await self._heartbeat())
        except EnMasseError as error:
            if error.code == Code.NODE_REPLACED:
                raise
            # The next one follows; the store may be away.
            log.warning("no heartbeat", node=self._identity.name, reason=error.message)
            return False
        return True

    async def _heartbeat(self) -> Heartbeat:
        facts = self._facts()
        connections = await self._measure()
        return Heartbeat(
            role="leader" if facts.leads else "standby",
            zone=self._zone,
            version=__version__,
            feature_level=FEATURE_LEVEL,
            endpoints=facts.endpoints,
            connections=connections,
            messages_per_second=round(self._rate, 1),
            is_cordoned=self.is_cordoned,
            proofs=self._proofs_of(facts.proof),
        )

    async def _measure(self) -> int:
        """Return the number of connections, and measure the rate since the last heartbeat."""
        try:
            spaces = await self._engine.usage()
        except Unavailable:
            spaces = ()
        messages = sum(one.messages_in + one.messages_out for one in spaces)
        now_s = self._clock.monotonic()
        if self._measured is not None and (elapsed_s := now_s - self._measured[0]) > 0:
            # The counters of a deleted space are gone: that is no negative rate.
            self._rate = max(messages - self._measured[1], 0) / elapsed_s
        self._measured = now_s, messages
        return sum(one.connections for one in spaces)

    def _proofs_of(self, proof: Proof | None) -> AddressProofs:
        if proof is not self._proof:
            self._proof = proof
            self._proofs = proofs_of(proof)
        return self._proofs


def proofs_of(proof: Proof | None) -> AddressProofs:
    """Return what a heartbeat says of a confirmation. Pure."""
    if proof is None:
        return AddressProofs()
    digest = hashlib.sha256(json.dumps(sorted(proof.active)).encode()).hexdigest()
    failed = islice(sorted(proof.failed.items()), EXCEPTIONS_MAX)
    exceptions = {uid: failure.reason for uid, failure in failed}
    return AddressProofs(digest, exceptions, len(proof.failed))
