"""Fields that are stored without an effect are reported by a condition."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from doubles import document, infra, space_plan
from enmasse.base.errors import Invalid
from enmasse.control.unimplemented import SERVED
from enmasse.plan import Catalogue
from enmasse.plan.catalogue import UNBOUNDED
from enmasse.resources import Address, AddressSpace, parse
from enmasse.resources.conditions import READY, find
from managed_store import Controlled, controlled

CONNECTOR = {"name": "far", "endpointHosts": [{"host": "mq.example.com"}]}
OUT = {"name": "f1", "remoteAddress": "far/orders", "direction": "out", "priority": 3}
IN = {"name": "f2", "remoteAddress": "far/in/orders", "direction": "in"}


@pytest.fixture
async def platform() -> AsyncIterator[Controlled]:
    async with controlled() as platform:
        await platform.apply(space([CONNECTOR]))
        yield platform


def space(connectors: list[dict[str, Any]]) -> dict[str, Any]:
    return document("AddressSpace", "shop", {"type": "standard", "connectors": connectors})


def address(type_: str, *forwarders: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"type": type_, "address": type_, "forwarders": list(forwarders), **more}
    return document("Address", f"shop.{type_}", spec)


def user(**authentication: Any) -> dict[str, Any]:
    spec = {"username": "alice", "authentication": authentication, "authorization": []}
    return document("MessagingUser", "shop.alice", spec)


async def test_forwarders_are_stored_and_reported_as_not_served(platform: Controlled) -> None:
    await platform.apply(address("queue", OUT, IN))
    condition = platform.condition_of("Address", "shop.queue", "ForwardersReady")
    assert (condition.status, condition.reason) == ("False", "NotServed")
    found = platform.get("Address", "shop.queue")
    assert isinstance(found, Address) and found.status.is_ready
    assert found.document()["spec"]["forwarders"] == [OUT, IN]
    told = found.status.forwarders
    assert told is not None and [(one.name, one.is_ready) for one in told] == [
        ("f1", False), ("f2", False),
    ]  # fmt: skip
    await platform.apply(address("queue"))
    found = platform.get("Address", "shop.queue")
    assert isinstance(found, Address) and found.status.forwarders is None
    assert find(found.status.conditions, "ForwardersReady") is None


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (address("anycast", OUT), "spec.forwarders: is not supported by type anycast"),
        (address("topic", OUT), "spec.forwarders: is not supported by type topic"),
        (
            address("queue", OUT, OUT),
            "forwarders.1..name: 'f1' is already used by another forwarder",
        ),
        (address("queue", OUT | {"name": "f-1"}), "invalid forwarder name 'f-1'"),
        (address("queue", OUT | {"direction": "both"}), "forwarders.0..direction"),
        (address("queue", IN | {"priority": 1}), "priority: is supported by direction out only"),
        (address("subscription", IN, topic="t"), "direction: must be out for a subscription"),
    ],
)
def test_invalid_forwarder_is_rejected(made: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse(made)


async def test_forwarder_must_name_an_existing_connector(platform: Controlled) -> None:
    for remote in ("near/orders", "far"):
        with pytest.raises(Invalid, match="does not begin with a connector name"):
            await platform.apply(address("queue", OUT | {"remoteAddress": remote}))
    await platform.apply(address("queue", OUT))
    await platform.apply(space([]))
    # A forwarder that was valid at its creation does not block other changes.
    await platform.apply(address("queue", OUT, messageTtl={"maximum": 5000}))
    with pytest.raises(Invalid, match="the address space has no connectors"):
        await platform.apply(address("queue", OUT, IN))


async def test_service_account_user_is_stored_and_not_planned(platform: Controlled) -> None:
    await platform.apply(user(type="serviceaccount"))
    ready = platform.condition_of("MessagingUser", "shop.alice", READY)
    assert (ready.status, ready.reason) == ("False", "ServiceAccountNotServed")
    (planned,) = platform.engine.plan.spaces
    assert planned.users == () and planned.authentication.type == "standard"


async def test_federated_provider_is_stored_and_reported_as_not_linked(
    platform: Controlled,
) -> None:
    fields = {"provider": "github", "federatedUserid": "17", "federatedUsername": "Alice"}
    await platform.apply(user(type="federated", **fields))
    found = platform.get("MessagingUser", "shop.alice")
    assert found.status.is_ready
    assert found.document()["spec"]["authentication"] == {"type": "federated", **fields}
    condition = platform.condition_of("MessagingUser", "shop.alice", "ProviderLinked")
    assert condition.status == "False"
    assert "spec.authentication.provider, spec.authentication.federatedUserid" in condition.message
    await platform.apply(user(type="federated"))
    found = platform.get("MessagingUser", "shop.alice")
    assert find(found.status.conditions, "ProviderLinked") is None
    with pytest.raises(
        Invalid, match="provider: is supported by type federated only, not password"
    ):
        parse(user(type="password", password="eA==", provider="github"))


async def test_fields_of_infra_configs_without_effect_are_listed(platform: Controlled) -> None:
    spec = {
        "version": "1",
        "globalDLQ": True,
        "admin": {"resources": {"memory": "1Gi"}},
        "broker": {"javaOpts": "-x", "globalMaxSize": "1MB"},
        "router": {"minReplicas": 2, "policy": {"maxConnectionsPerUser": 1, "maxConnections": 9}},
    }
    await platform.apply(infra("own", **spec).document())
    condition = platform.condition_of(
        "StandardInfraConfig", "own", "AllFieldsServed", "enmasse-infra"
    )
    assert condition.message == (
        "stored without effect on a single node: spec.version, spec.globalDLQ, "
        "spec.admin.resources, spec.broker.javaOpts, spec.router.minReplicas, "
        "spec.router.policy.maxConnectionsPerUser"
    )
    await platform.apply(infra("own", router={"linkCapacity": 9}).document())
    found = platform.get("StandardInfraConfig", "own", "enmasse-infra")
    assert find(found.status.conditions, "AllFieldsServed") is None


VALUES: dict[str, Any] = {
    "broker.addressFullPolicy": "BLOCK",
    "broker.globalMaxSize": "1MB",
    "broker.treatRejectAsUnmodifiedDeliveryFailed": False,
    "router.linkCapacity": 9,
    "router.policy.maxConnections": 9,
    "router.policy.maxMessageSize": 9,
}


@pytest.mark.parametrize("field", sorted(SERVED))
def test_every_served_infra_config_field_changes_the_bounds(field: str) -> None:
    spec: Any = VALUES[field]
    for name in reversed(field.split(".")):
        spec = {name: spec}
    if field == "broker.addressFullPolicy":
        spec["broker"]["globalMaxSize"] = "1MB"
    shop = parse(document("AddressSpace", "shop", {"type": "standard", "plan": "p"}))
    assert isinstance(shop, AddressSpace)
    bounds = Catalogue([infra(**spec), space_plan("p", [], (1, 1, 2))]).bounds(shop)
    assert bounds != UNBOUNDED
