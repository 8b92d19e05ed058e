"""Stand-ins and short ways to make things, for tests of several packages."""

import asyncio
import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

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
        self.used_s = 0.0
        """Processor time of the only thread."""

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.elapsed_s

    def thread_s(self) -> float:
        return self.used_s

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.elapsed_s += seconds


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
