"""The Plan's shape. The node refuses members it does not know: this and the node's move together.

What each member means to the node is said in `crates/router/src/plan.rs`.
"""

from functools import cached_property
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from enmasse.resources.messaging_user import Operation, Verifier
from enmasse.resources.model import Model

EVERY_NAME = "#"
"""The pattern that covers every address."""

LINK_CAPACITY = 1000
"""Deliveries a producer may have on the way on one link, where nothing else is said."""


class Sparse(Model):
    """A piece of a Plan whose members are left out where nothing is said."""

    @model_serializer(mode="wrap")
    def _said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class AddressLimits(Model):
    """Bounds of an address; None has no bound."""

    link_capacity: int = LINK_CAPACITY
    """Deliveries a producer may have sent and no consumer taken, on each link."""

    message_size: int | None = None
    """Largest message in bytes."""

    messages: int | None = None
    bytes: int | None = None
    consumers: int | None = None
    producers: int | None = None
    on_full: Literal["block", "reject", "dropOldest"] | None = None

    @model_serializer(mode="wrap")
    def _said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Say of direct addresses no more than they have."""
        members = serialize(self)
        always = ("linkCapacity", "messageSize")
        return {
            name: value for name, value in members.items() if name in always or value is not None
        }


class PlannedTtl(Sparse):
    """How long messages live."""

    minimum_ms: int | None = None
    maximum_ms: int | None = None


class PlannedRedelivery(Sparse):
    """How often a message is tried, and when again."""

    attempts: int | None = None
    delay_ms: int | None = None
    delay_multiplier: float | None = None
    delay_maximum_ms: int | None = None
    reject_is_failure: bool | None = None


class PlannedRetention(Sparse):
    """How much a stream keeps."""

    bytes: int | None = None
    age_ms: int | None = None


class PlannedDuplicateDetection(Model):
    """Which message ids are remembered."""

    ids: int
    window_ms: int


class PlannedSubscription(Model):
    """Where a subscription belongs."""

    topic: str
    max_consumers: int


class PlannedAddress(Sparse):
    """One address a node serves. A subscription's name is `topic::address`."""

    uid: str
    name: str
    type: str
    limits: AddressLimits = AddressLimits()
    durability: Literal["disk", "memory"] | None = None
    ttl: PlannedTtl | None = None
    redelivery: PlannedRedelivery | None = None
    deadletter: str | None = None
    expiry: str | None = None
    retention: PlannedRetention | None = None
    partitions: int | None = None
    duplicate_detection: PlannedDuplicateDetection | None = None
    subscription: PlannedSubscription | None = None
    last_value_key: str | None = None
    single_active_consumer: bool | None = None
    groups: Literal["none", "sticky", "perKey"] | None = None

    @cached_property
    def json_text(self) -> str:
        """The address as the node reads it; written once, because most stay as they are."""
        return self.model_dump_json(by_alias=True)


class Right(Model):
    """Operations on the addresses that a pattern covers."""

    pattern: str
    operations: tuple[Operation, ...]


class PlannedUser(Model):
    """One user a node lets in."""

    name: str
    verifiers: tuple[Verifier, ...] = ()
    rights: tuple[Right, ...] = ()


class Authentication(Sparse):
    """Who may come into a space."""

    type: Literal["none", "standard", "delegated"]
    anonymous: bool
    mechanisms: tuple[str, ...]
    service: str | None = None
    """Who is asked about tokens, and about passwords if delegated. It is another one after any
    change that its answers depend on."""


class SpaceLimits(Model):
    """Bounds of a space on one node; None has no bound."""

    connections: int | None = None
    links: int | None = None
    links_per_connection: int | None = None
    messages_per_second: int | None = None
    bytes_per_second: int | None = None
    exhausted: bool = False
    """What may be sent in the period is used up: nobody has credit to send."""

    @model_serializer(mode="wrap")
    def _said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the bounds that the space does not have, except those that always stand."""
        always = ("connections", "links")
        return {name: one for name, one in serialize(self).items() if name in always or one}


class PlannedSpace(Model):
    """One address space: `names` has the short name, host names of endpoints and, last, the full
    name."""

    uid: str
    names: tuple[str, ...]
    authentication: Authentication
    users: tuple[PlannedUser, ...] = ()
    limits: SpaceLimits = SpaceLimits()
    addresses: tuple[PlannedAddress, ...] = ()
    auto_create: tuple[str, ...] = ()
    """Patterns of the names that links may have created."""

    internal: bool = False
    """Only sessions within the process of the node come in."""

    @model_serializer(mode="wrap")
    def _said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        optional = ("autoCreate", "internal")
        return {name: one for name, one in serialize(self).items() if name not in optional or one}

    @cached_property
    def json_text(self) -> str:
        """The space as the node reads it."""
        head = self.model_dump_json(by_alias=True, exclude={"addresses"})
        addresses = ",".join(one.json_text for one in self.addresses)
        return f'{head[:-1]},"addresses":[{addresses}]}}'


class Plan(Model):
    """Everything a node serves. `version` grows with every change."""

    version: int
    default_space: str | None = None
    """Full name of the space of connections that name none; None: the only space there is."""

    hosts: tuple[str, ...] = ()
    """Host names of the platform, which name no space."""

    spaces: tuple[PlannedSpace, ...] = ()

    def says_as(self, other: "Plan") -> bool:
        """Whether it says the same as another one, whatever their versions."""
        return (self.default_space, self.hosts, self.spaces) == (
            other.default_space,
            other.hosts,
            other.spaces,
        )

    def json_text(self) -> str:
        """Return the plan as the node reads it."""
        head = self.model_dump_json(by_alias=True, exclude={"spaces"}, exclude_defaults=True)
        spaces = ",".join(space.json_text for space in self.spaces)
        return f'{head[:-1]},"spaces":[{spaces}]}}'
