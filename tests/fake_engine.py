"""An engine without a node, and what a node says of its certificate."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

from enmasse.auth import authority as signing
from enmasse.base.errors import Code, EnMasseError, Missing, Unavailable
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.engines import (
    AddressStatistics,
    Connection,
    Failure,
    LinkStatistics,
    MqttSession,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    SessionName,
    Slice,
    SliceDone,
    SpaceStatistics,
    UnusableCertificate,
)
from enmasse.messaging import Session
from enmasse.plan import Plan


class FakeEngine:
    """An engine that serves whatever it is told, or refuses when it is told to."""

    def __init__(self) -> None:
        self.applied: list[Plan] = []
        self.refusals: list[EnMasseError] = []
        self.unserved: set[str] = set()
        self.failed: dict[str, Failure] = {}
        self.proved = 0
        self.statistics: list[AddressStatistics] = []
        self.carried: list[SpaceStatistics] = []
        self.open: list[Connection] = []
        self.sessions: list[MqttSession] = []
        self.traced_frames: list[str] = []
        self.attached: list[LinkStatistics] = []
        self.connected: list[tuple[str, str | None, socket.socket]] = []
        """Spaces, users and far ends of sockets."""

        self.troubled: str | None = None
        self.traced: dict[int, bool] = {}
        self.managed: list[tuple[str, Operation, Slice]] = []
        self.answers: list[SliceDone | EnMasseError] = []
        self.shown: dict[str, Sequence[ServerCertificate]] = {}
        """Certificates of spaces, by uid."""

        self.show_refusals: list[EnMasseError | OSError] = []
        self.not_shown: dict[str, str] = {}
        """Chains that it does not take, and why."""

    @property
    def plan(self) -> Plan:
        return self.applied[-1]

    async def apply(self, plan: Plan) -> Proof:
        await asyncio.sleep(0)
        if self.refusals:
            raise self.refusals.pop(0)
        self.applied.append(plan)
        return await self.prove()

    async def prove(self) -> Proof:
        self.proved += 1
        uids = {address.uid for space in self.plan.spaces for address in space.addresses}
        failed = {uid: failure for uid, failure in self.failed.items() if uid in uids}
        return Proof(self.plan.version, frozenset(uids - self.unserved - failed.keys()), failed)

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[UnusableCertificate]:
        await asyncio.sleep(0)
        if self.show_refusals:
            raise self.show_refusals.pop(0)
        self.shown |= spaces
        return [
            UnusableCertificate(uid, one.names, self.not_shown[one.chain])
            for uid, certificates in spaces.items()
            for one in certificates
            if one.chain in self.not_shown
        ]

    async def observe(self) -> Observed:
        return Observed(len(self.open), self.statistics)

    async def usage(self) -> Sequence[SpaceStatistics]:
        return self.carried

    def problem(self) -> str | None:
        return self.troubled

    async def connections(self) -> Sequence[Connection]:
        return self.open

    async def links(
        self, *, connection: int | None = None, address_uid: str | None = None
    ) -> tuple[Sequence[LinkStatistics], int]:
        found = [
            one
            for one in self.attached
            if connection in (None, one.connection)
            and (address_uid is None or address_uid in one.addresses)
        ]
        return found, 0

    async def close_connection(self, connection: int) -> None:
        if all(one.id != connection for one in self.open):
            raise Missing(Code.CONNECTION_MISSING, f"connection {connection} not found")
        self.open = [one for one in self.open if one.id != connection]

    async def mqtt_sessions(
        self, space_uid: str, *, after: SessionName | None, limit: int
    ) -> tuple[Sequence[MqttSession], int]:
        def key(name: SessionName) -> tuple[str, str]:
            return name.user or "", name.client_id

        start = ("", "") if after is None else key(after)
        in_order = sorted(self.sessions, key=lambda one: key(one.name))
        found = [one for one in in_order if key(one.name) > start]
        return found[:limit], max(len(found) - limit, 0)

    async def end_mqtt_session(self, space_uid: str, name: SessionName) -> bool:
        before = len(self.sessions)
        self.sessions = [one for one in self.sessions if one.name != name]
        return len(self.sessions) < before

    def session(self, space: str) -> Session:
        raise Unavailable(Code.OPERATION_UNSUPPORTED, f"no session with {space} in this engine")

    def connect(self, space: str, user: str | None) -> socket.socket:
        """A socket whose other end the test has."""
        ours, theirs = socket.socketpair()
        self.connected.append((space, user, theirs))
        return ours

    async def trace(self, connection: int, *, on: bool) -> None:
        if all(one.id != connection for one in self.open):
            raise Missing(Code.CONNECTION_MISSING, f"connection {connection} not found")
        self.traced[connection] = on

    async def frames(self, connection: int) -> AsyncGenerator[Mapping[str, Any], None]:
        for frame in self.traced_frames:
            yield {"event": "trace", "connection": connection, "direction": "in", "frames": frame}
        await asyncio.Event().wait()

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Give the answers it was told to give, one after the other."""
        self.managed.append((address_uid, operation, part))
        if not self.answers:
            raise Unavailable(Code.OPERATION_UNSUPPORTED, f"this node cannot {operation}")
        answer = self.answers.pop(0)
        if isinstance(answer, EnMasseError):
            raise answer
        return answer


def node_identity(now: datetime, *names: str, is_own: bool = False) -> NodeIdentity:
    """What a node shows that is called `names`; `is_own`: signed by an authority of another."""
    authority = signing.new_authority("EnMasse CA", now, signs_authorities=True)
    signer = signing.new_authority("another", now) if is_own else authority
    certificate = signing.issue(signer, signing.new_key(), "node", names or ["localhost"], now)
    chain = signing.chain_pem([certificate])
    pem, key = signing.chain_pem([authority.certificate]), signing.key_pem(authority.key)
    return NodeIdentity(chain, pem, key, is_own)
