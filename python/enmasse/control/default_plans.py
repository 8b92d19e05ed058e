"""Default plans, infra configs and authentication services of a new platform.

Names and credit are those of the original, so that its manifests work. The `free` plans are new:
few connections, small messages, little storage.
"""

from collections.abc import Iterator, Sequence

from enmasse.resources import (
    AddressPlan,
    AddressSpacePlan,
    AuthenticationService,
    BrokeredInfraConfig,
    Resource,
    StandardInfraConfig,
)
from enmasse.resources.address import Limits, MessageTtl, PlanResources
from enmasse.resources.address_plan import AddressPlanSpec
from enmasse.resources.address_space_plan import (
    AddressSpacePlanSpec,
    Allowance,
    ResourceLimits,
    SpaceLimits,
)
from enmasse.resources.authentication_service import AuthenticationServiceSpec
from enmasse.resources.infra_config import BrokeredInfraConfigSpec, StandardInfraConfigSpec
from enmasse.resources.model import AdminMetadata

_DIRECT = ("anycast", "multicast")
_STORED = ("queue", "topic", "subscription")
_SIZES = ("small", "medium", "large")
_ROUTER = {"small": 0.001, "medium": 0.01, "large": 0.1, "xlarge": 0.2}
_BROKER = {"small": 0.01, "medium": 0.1, "large": 1.0, "xlarge": 2.0}
PARTITIONS = 3
"""Partitions of the `partitioned` plans."""

_KIB, _MIB, _DAY_MS = 1 << 10, 1 << 20, 24 * 3600 * 1000
FREE_CREDIT = 0.1
"""Router share of an address with the plan `standard-free`: ten addresses in total."""

ADDRESSES_MAX = {
    "standard-unlimited": 200_000,
    "standard-small": 2_000,
    "standard-medium": 6_000,
    "standard-free": 10,
    "brokered-single-broker": 1_000,
}
"""Maximum addresses of a space: some types use no credit and would be unlimited."""

FREE_CONNECTIONS, FREE_LINKS = 10, 50
FREE_MESSAGES_A_SECOND, FREE_BYTES_A_SECOND = 50, 256 * _KIB
FREE_MESSAGES_A_MONTH, FREE_BYTES_A_MONTH = 100_000, 1 << 30
FREE_MESSAGE_BYTES = 256 * _KIB
FREE_STORED_BYTES = 16 * _MIB
FREE_TTL_MS = 7 * _DAY_MS


def platform_resources() -> list[Resource]:
    """Return all of them."""
    address_plans = [*_standard_plans(), *_brokered_plans(), *_free_plans()]
    by_space: dict[str, list[str]] = {"standard": [], "brokered": [], "free": []}
    for plan in address_plans:
        name = plan.metadata.name
        group = "free" if name.startswith("standard-free") else name.partition("-")[0]
        by_space[group].append(name)
    return [
        *(_standard_infra(name) for name in ("default", "default-minimal")),
        BrokeredInfraConfig(
            metadata=AdminMetadata(name="default"), spec=BrokeredInfraConfigSpec(version="1")
        ),
        *address_plans,
        *_space_plans(by_space["standard"], by_space["brokered"], by_space["free"]),
        _service("none-authservice", "none"),
        _service("standard-authservice", "standard"),
    ]


def _standard_plans() -> Iterator[AddressPlan]:
    for type_ in _DIRECT:
        for order, size in enumerate(_SIZES):
            yield _plan(type_, size, order, PlanResources(router=_ROUTER[size]))
    for type_ in _STORED:
        for order, size in enumerate(_SIZES if type_ == "subscription" else (*_SIZES, "xlarge")):
            credit = PlanResources(router=_ROUTER[size], broker=_BROKER[size])
            yield _plan(type_, size, order, credit)
    for order, size in enumerate(_SIZES, start=4):
        credit = PlanResources(router=_ROUTER[size], broker=_BROKER[size])
        yield _plan("queue", size, order, credit, PARTITIONS)
    yield _address_plan("standard-deadletter", "Dead Letter", 0, address_type="deadletter")


def _plan(
    type_: str, size: str, order: int, credit: PlanResources, partitions: int | None = None
) -> AddressPlan:
    kind = f"partitioned-{type_}" if partitions else type_
    shown = f"{size.capitalize()} {'HA ' if partitions else ''}{type_.capitalize()}"
    return _address_plan(
        f"standard-{size}-{kind}",
        shown,
        order,
        address_type=type_,
        resources=credit,
        partitions=partitions,
    )


def _brokered_plans() -> Iterator[AddressPlan]:
    for type_ in _STORED:
        yield _address_plan(
            f"brokered-{type_}",
            type_.capitalize(),
            0,
            address_type=type_,
            resources=PlanResources(broker=0.0),
        )
    yield _address_plan("brokered-deadletter", "Dead Letter", 0, address_type="deadletter")


def _free_plans() -> Iterator[AddressPlan]:
    for type_ in (*_DIRECT, *_STORED, "deadletter"):
        is_stored = type_ not in _DIRECT
        limits = Limits(
            bytes=FREE_STORED_BYTES if is_stored else None,
            on_full=("dropOldest" if type_ == "deadletter" else "reject") if is_stored else None,
        )
        yield _address_plan(
            f"standard-free-{type_}",
            f"Free {type_.capitalize()}",
            10,
            address_type=type_,
            resources=PlanResources(
                router=FREE_CREDIT, broker=FREE_CREDIT if type_ in _STORED else None
            ),
            message_ttl=MessageTtl(maximum=FREE_TTL_MS)
            if type_ in ("queue", "topic", "deadletter")
            else None,
            limits=limits if is_stored else None,
        )


def _address_plan(name: str, shown: str, order: int, **spec: object) -> AddressPlan:
    described = {
        "display_name": shown,
        "display_order": order,
        "short_description": f"{shown}.",
    }
    return AddressPlan(
        metadata=AdminMetadata(name=name), spec=AddressPlanSpec.model_validate(described | spec)
    )


def _space_plans(
    standard: Sequence[str], brokered: Sequence[str], free: Sequence[str]
) -> Iterator[AddressSpacePlan]:
    small = [name for name in standard if "xlarge" not in name and "partitioned" not in name]
    sizes = {
        "standard-unlimited": ("Unlimited", "default", 10_000.0, 10_000.0, standard),
        "standard-small": ("Small", "default-minimal", 1.0, 2.0, small),
        "standard-medium": ("Medium", "default", 3.0, 6.0, standard),
        "standard-free": ("Free", "default-minimal", 1.0, 2.0, free),
    }
    for order, (name, (shown, infra, each, aggregate, plans)) in enumerate(sizes.items()):
        yield AddressSpacePlan(
            metadata=AdminMetadata(name=name),
            spec=AddressSpacePlanSpec(
                display_name=shown,
                display_order=order,
                short_description=_FREE_DESCRIPTION
                if name == "standard-free"
                else f"{ADDRESSES_MAX[name]:,} addresses; router and broker credit of {each:g}.",
                address_space_type="standard",
                infra_config_ref=infra,
                address_plans=tuple(plans),
                resource_limits=ResourceLimits(router=each, broker=each, aggregate=aggregate),
                limits=_FREE
                if name == "standard-free"
                else SpaceLimits(addresses=ADDRESSES_MAX[name]),
            ),
        )
    yield AddressSpacePlan(
        metadata=AdminMetadata(name="brokered-single-broker"),
        spec=AddressSpacePlanSpec(
            display_name="Single Broker",
            display_order=0,
            short_description="One broker.",
            address_space_type="brokered",
            infra_config_ref="default",
            address_plans=tuple(brokered),
            resource_limits=ResourceLimits(broker=1.9),
            limits=SpaceLimits(addresses=ADDRESSES_MAX["brokered-single-broker"]),
        ),
    )


_FREE_DESCRIPTION = (
    f"{FREE_CONNECTIONS} connections, {FREE_MESSAGES_A_SECOND} messages a second,"
    f" {FREE_MESSAGES_A_MONTH} a month."
)
_FREE = SpaceLimits(
    addresses=ADDRESSES_MAX["standard-free"],
    connections=FREE_CONNECTIONS,
    links=FREE_LINKS,
    message_size=FREE_MESSAGE_BYTES,
    messages_per_second=FREE_MESSAGES_A_SECOND,
    bytes_per_second=FREE_BYTES_A_SECOND,
    allowance=Allowance(period="month", messages=FREE_MESSAGES_A_MONTH, bytes=FREE_BYTES_A_MONTH),
)


def _standard_infra(name: str) -> StandardInfraConfig:
    return StandardInfraConfig(
        metadata=AdminMetadata(name=name), spec=StandardInfraConfigSpec(version="1")
    )


def _service(name: str, type_: str) -> AuthenticationService:
    return AuthenticationService(
        metadata=AdminMetadata(name=name),
        spec=AuthenticationServiceSpec.model_validate({"type": type_}),
    )
