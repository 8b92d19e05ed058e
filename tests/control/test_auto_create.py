"""Addresses that links request are declared through admission, and deleted when unused."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from doubles import TestClock, address, address_plan, document, infra, queue, space, space_plan
from enmasse.base.errors import Code
from enmasse.control import Admission
from enmasse.control.auto_create import LOOK_S, SYSTEM, AutoCreateRecord, AutoCreation, Expiry
from enmasse.engines import AddressStatistics, Observed
from enmasse.resources import Address, Key, Resource, parse
from enmasse.resources.address import TYPES
from enmasse.resources.auto_create import CREATED_BY, EXPIRE_AFTER, OWNER, OWNER_LABEL
from enmasse.store import MemoryStore

KEY = Key("Address", "default", "default.jobs-1-3e6d4b7f")


class SealingEngine:
    """An engine that records which addresses it seals."""

    def __init__(self) -> None:
        self.statistics: dict[str, AddressStatistics] = {}
        self.sealed: dict[str, bool] = {}
        self.refuses = False
        self.on_seal: list[Any] = []

    async def observe(self) -> Observed:
        return Observed(0, list(self.statistics.values()))

    async def seal_unused(self, uid: str, *, seal: bool) -> bool:
        self.sealed[uid] = seal and not self.refuses
        for one in self.on_seal:
            await one()
        return self.sealed[uid]


class World:
    """A store with automatic creation and expiry of addresses."""

    def __init__(self) -> None:
        self.clock = TestClock(datetime(2026, 11, 1, tzinfo=UTC))
        self.store = MemoryStore(self.clock)
        self.admission = Admission(self.store, exposed=False, served=TYPES)
        self.engine = SealingEngine()
        self.deeds: list[AutoCreateRecord] = []
        self.creation = AutoCreation(self.store, self.admission, self.deeds.append)
        self.expiry = Expiry(self.store, self.admission, self.engine, self.clock, self.deeds.append)

    async def declare(self, *resources: Resource | dict[str, Any]) -> None:
        await self.admission.apply(
            [parse(one) if isinstance(one, dict) else one for one in resources]
        )

    async def want(
        self, name: str = "jobs/1", type_: str | None = None, user: str | None = "alice"
    ) -> str | None:
        return await self.creation.create(wanted(name, type_, user))

    def addresses(self) -> list[Address]:
        found = self.store.list("Address")
        return [one for one in found if isinstance(one, Address)]

    async def pass_(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.expiry.check_expiry()


def wanted(name: str, type_: str | None = None, user: str | None = "alice") -> Mapping[str, Any]:
    return {
        **{"id": 1, "space": "default.default", "address": name},
        **{"type": type_, "patterns": ["jobs/*"], "user": user},
    }


def creating(**rule: Any) -> dict[str, Any]:
    spec = {"type": "standard", "autoCreate": [{"pattern": "jobs/*"} | rule]}
    return document("AddressSpace", "default", spec)


@pytest.fixture
def world() -> World:
    return World()


async def test_attach_creates_the_address_and_records_its_user(world: World) -> None:
    await world.declare(creating(expireAfter="1m"))
    assert await world.want() is None
    (made,) = world.addresses()
    assert (made.spec.address, made.spec.type) == ("jobs/1", "queue")
    assert made.metadata.name.startswith("default.jobs-1-")
    assert made.metadata.labels == {OWNER_LABEL: OWNER}
    assert made.metadata.annotations == {CREATED_BY: "alice", EXPIRE_AFTER: "60000ms"}
    assert world.deeds == [AutoCreateRecord("create", made.key, "alice")]


async def test_link_capability_sets_the_type_unless_the_rule_does(world: World) -> None:
    await world.declare(creating())
    assert await world.want("jobs/1", "topic") is None
    assert await world.want("jobs/2", user=None) is None
    await world.declare(creating(type="queue"))
    refused = await world.want("jobs/3", "topic")
    assert refused is not None
    assert "no topic is created under the name 'jobs/3'" in refused
    assert [one.spec.type for one in world.addresses()] == ["topic", "queue"]
    assert "enmasse.io/created-by" not in world.addresses()[1].metadata.annotations


async def test_two_links_to_one_name_have_one_address(world: World) -> None:
    await world.declare(creating())
    assert await world.want(user="alice") is None
    assert await world.want(user="bob") is None
    assert len(world.addresses()) == 1
    assert [deed.user for deed in world.deeds] == ["alice"]


async def test_taken_resource_name_is_replaced_by_one_with_a_suffix(world: World) -> None:
    await world.declare(creating(), queue("default.orders", address="other"))
    assert await world.creation.create(wanted("orders") | {"patterns": ["jobs/*"]}) is None
    names = {one.spec.address: one.metadata.name for one in world.addresses()}
    assert names["orders"].startswith("default.orders-")


@pytest.mark.parametrize("name", ["jobs/b\u200bc", "jobs/\u202eabc"])
async def test_invalid_address_name_is_refused_with_the_reason(world: World, name: str) -> None:
    await world.declare(creating())
    refusal = await world.want(name)
    assert refusal is not None and refusal.startswith("no address is created under this name: ")
    assert not world.addresses() and not world.deeds


async def test_exhausted_quota_is_reported_to_client_and_audit_trail(world: World) -> None:
    plans = [address_plan("small", "queue", broker=1.0)]
    await world.declare(infra(), *plans, space_plan("tiny", plans, (1, 1, 1)))
    rules = creating()
    rules["spec"]["plan"] = "tiny"
    await world.declare(rules)
    assert await world.want("jobs/1") is None
    refused = await world.want("jobs/2")
    assert refused is not None
    assert refused.startswith("the address 'jobs/2' was not created: ")
    assert "quota" in refused
    error = world.deeds[-1].error
    assert error is not None
    assert error.code == Code.QUOTA_EXCEEDED
    assert len(world.addresses()) == 1


async def test_creation_is_refused_without_a_space_or_a_rule(world: World) -> None:
    assert await world.want() == "there is no address space default.default"
    await world.declare(space())
    refused = await world.want()
    assert refused is not None
    assert "declare the address" in refused


async def made(world: World) -> Address:
    """An address that expires after a minute, checked for the first time."""
    await world.declare(creating(expireAfter="1m"))
    assert await world.want() is None
    await world.expiry.check_expiry()
    return world.addresses()[0]


def statistics(one: Address, **statistics: Any) -> AddressStatistics:
    return AddressStatistics(one.metadata.uid or "", "default.default", "jobs/1", **statistics)


async def test_unused_address_is_sealed_and_deleted_after_its_expiry(world: World) -> None:
    one = await made(world)
    await world.pass_(59)
    assert world.addresses()
    await world.pass_(1)
    assert world.addresses() == []
    assert world.engine.sealed == {one.metadata.uid: True}
    assert world.deeds[-1] == AutoCreateRecord("delete", one.key, SYSTEM)


@pytest.mark.parametrize("used", ["senders", "receivers", "stored", "waiting"])
async def test_address_with_links_or_messages_does_not_expire(world: World, used: str) -> None:
    one = await made(world)
    uid = one.metadata.uid or ""
    world.engine.statistics[uid] = statistics(one, **{used: 1})
    await world.pass_(600)
    world.engine.statistics[uid] = statistics(one)
    await world.pass_(59)
    assert world.engine.sealed == {}, "the expiry starts when the use ends"
    await world.pass_(60)
    assert world.addresses() == []


async def test_use_between_two_checks_restarts_the_expiry(world: World) -> None:
    one = await made(world)
    uid = one.metadata.uid or ""
    world.engine.statistics[uid] = statistics(one, enqueued=1, delivered=1)
    await world.pass_(59)
    await world.pass_(59)
    assert world.addresses()
    await world.pass_(1)
    assert world.addresses() == []


async def test_address_that_cannot_be_sealed_is_kept(world: World) -> None:
    """The address has a durable subscription, a resumable link or a new link."""
    await made(world)
    world.engine.refuses = True
    await world.pass_(60)
    await world.pass_(59)
    assert world.addresses()
    world.engine.refuses = False
    await world.pass_(1)
    assert world.addresses() == []


async def test_address_without_the_owner_label_does_not_expire(world: World) -> None:
    one = await made(world)
    await world.admission.replace(one.with_metadata(labels={}))
    await world.pass_(600)
    assert world.addresses()
    assert world.engine.sealed == {}


async def test_label_removed_during_sealing_keeps_and_unseals_the_address(world: World) -> None:
    one = await made(world)

    async def keep() -> None:
        world.engine.on_seal.clear()
        await world.admission.replace(one.with_metadata(labels={}))

    world.engine.on_seal.append(keep)
    await world.pass_(60)
    assert world.addresses()
    assert world.engine.sealed == {one.metadata.uid: False}, "links may attach again"
    assert [deed.verb for deed in world.deeds] == ["create"]


async def test_terminating_address_with_finalizers_is_unsealed_and_deleted_once(
    world: World,
) -> None:
    one = await made(world)
    await world.admission.replace(one.with_metadata(finalizers=("example.com/keep",)))
    await world.pass_(60)
    (left,) = world.addresses()
    assert left.is_terminating
    assert world.engine.sealed == {one.metadata.uid: False}
    await world.pass_(60)
    assert world.deeds[-1].verb == "delete"
    assert len(world.deeds) == 2, "it is deleted once"


async def test_declared_addresses_never_expire(world: World) -> None:
    await world.declare(creating(), queue(), address("default.direct"))
    await world.expiry.check_expiry()
    await world.pass_(10_000)
    assert len(world.addresses()) == 2
    assert LOOK_S <= 1.0
