"""Stand-ins and short ways to make things, for tests of several packages."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from enmasse.auth import authority as signing
from enmasse.base.errors import Code, EnMasseError, Missing, Unavailable
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.engines import (
    AddressFigures,
    Connection,
    Failure,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    Slice,
    SliceDone,
    SpaceFigures,
    Unshown,
)
from enmasse.plan import Plan
from enmasse.resources import (
    Address,
    AddressPlan,
    AddressSpace,
    AddressSpacePlan,
    MessagingUser,
    StandardInfraConfig,
    parse,
)


class TestClock:
    """A clock that stands still until it is told, or asked to sleep."""

    __test__ = False

    def __init__(self, moment: datetime | None = None) -> None:
        self.moment = moment or datetime(2026, 1, 1, tzinfo=UTC)
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.elapsed_s += seconds


class FakeEngine:
    """An engine that serves whatever it is told, or refuses when it is told to."""

    def __init__(self) -> None:
        self.applied: list[Plan] = []
        self.refusals: list[EnMasseError] = []
        self.unserved: set[str] = set()
        self.failed: dict[str, Failure] = {}
        self.proved = 0
        self.figures: list[AddressFigures] = []
        self.carried: list[SpaceFigures] = []
        self.open: list[Connection] = []
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
    ) -> Sequence[Unshown]:
        await asyncio.sleep(0)
        if self.show_refusals:
            raise self.show_refusals.pop(0)
        self.shown |= spaces
        return [
            Unshown(uid, one.names, self.not_shown[one.chain])
            for uid, certificates in spaces.items()
            for one in certificates
            if one.chain in self.not_shown
        ]

    async def observe(self) -> Observed:
        return Observed(len(self.open), self.figures)

    async def usage(self) -> Sequence[SpaceFigures]:
        return self.carried

    def trouble(self) -> str | None:
        return self.troubled

    async def connections(self) -> Sequence[Connection]:
        return self.open

    async def trace(self, connection: int, *, on: bool) -> None:
        if all(one.id != connection for one in self.open):
            raise Missing(Code.CONNECTION_MISSING, f"connection {connection} not found")
        self.traced[connection] = on

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


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def space(
    name: str = "default",
    authentication: str | None = None,
    type_: str = "standard",
    plan: str | None = None,
    **metadata: Any,
) -> AddressSpace:
    spec: dict[str, Any] = {"type": type_} | ({"plan": plan} if plan else {})
    if authentication:
        spec["authenticationService"] = {"type": authentication}
    resource = parse(document("AddressSpace", name, spec))
    assert isinstance(resource, AddressSpace)
    return resource.with_metadata(**metadata)


def address(
    name: str = "default.orders",
    type_: str = "anycast",
    address: str | None = None,
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> Address:
    spec = {"type": type_, "address": address or name.partition(".")[2]} | (spec or {})
    resource = parse(document("Address", name, spec))
    assert isinstance(resource, Address)
    return resource.with_metadata(**metadata)


def queue(name: str = "default.orders", **spec: Any) -> Address:
    return address(name, "queue", spec=spec)


def topic(name: str = "default.news", **spec: Any) -> Address:
    return address(name, "topic", spec=spec)


def subscription(
    name: str = "default.night", topic: str = "news", max_consumers: int | None = None, **spec: Any
) -> Address:
    if max_consumers is not None:
        spec["subscription"] = {"maxConsumers": max_consumers}
    return address(name, "subscription", spec=spec | {"topic": topic})


def deadletter(name: str = "default.dead", **spec: Any) -> Address:
    return address(name, "deadletter", spec=spec)


def user(
    name: str = "default.alice", password: str | None = "pencil", **metadata: Any
) -> MessagingUser:
    authentication = {"type": "password"}
    if password is not None:
        authentication["password"] = base64.b64encode(password.encode()).decode()
    spec = {
        "username": name.partition(".")[2],
        "authentication": authentication,
        "authorization": [{"addresses": ["*"], "operations": ["send", "recv"]}],
    }
    resource = parse(document("MessagingUser", name, spec))
    assert isinstance(resource, MessagingUser)
    return resource.with_metadata(**metadata)


def address_plan(
    name: str,
    type_: str,
    router: float | None = None,
    broker: float | None = None,
    **spec: Any,
) -> AddressPlan:
    credit = {"router": router, "broker": broker}
    spec |= {"resources": {name: one for name, one in credit.items() if one is not None}}
    data = document("AddressPlan", name, {"addressType": type_} | spec)
    resource = parse(data | {"apiVersion": "admin.enmasse.io/v1beta2"})
    assert isinstance(resource, AddressPlan)
    return resource


def space_plan(
    name: str,
    plans: Sequence[AddressPlan],
    quota: tuple[float, float, float] = (10, 10, 20),
    **spec: Any,
) -> AddressSpacePlan:
    """A plan of standard spaces with a quota of routers, brokers and both."""
    spec = {
        "addressSpaceType": "standard",
        "infraConfigRef": "default",
        "addressPlans": [plan.metadata.name for plan in plans],
        "resourceLimits": dict(zip(("router", "broker", "aggregate"), quota, strict=True)),
    } | spec
    data = document("AddressSpacePlan", name, spec)
    resource = parse(data | {"apiVersion": "admin.enmasse.io/v1beta2"})
    assert isinstance(resource, AddressSpacePlan)
    return resource


def infra(name: str = "default", **spec: Any) -> StandardInfraConfig:
    data = document("StandardInfraConfig", name, spec)
    resource = parse(data | {"apiVersion": "admin.enmasse.io/v1beta1"})
    assert isinstance(resource, StandardInfraConfig)
    return resource
