"""The schema of the Plan. The node rejects unknown members, so both sides change together.

`crates/router/src/plan.rs` documents each member.
"""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from enmasse.resources.address import TYPES, Limits, NodeSettings
from enmasse.resources.messaging_user import Operation, Verifier
from enmasse.resources.model import Model

EVERY_NAME = "#"
"""The pattern that matches every address."""

LINK_CAPACITY = 1000
"""Default credit of a sender."""


LINK_CAPACITY_MAX = 100_000

U32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
LinkCapacity = Annotated[int, Field(ge=1, le=LINK_CAPACITY_MAX)]
Name = Annotated[str, Field(min_length=1)]
AddressType = Annotated[str, Field(json_schema_extra={"enum": [*TYPES]})]


class Sparse(Model):
    """A part of a Plan; absent members are omitted."""

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class AddressLimits(Limits):
    """Limits of an address, as declared, and the credit of a sender; None means unlimited."""

    link_capacity: LinkCapacity = LINK_CAPACITY
    """Deliveries in flight on one link."""

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit limits of stored addresses from direct ones."""
        members = serialize(self)
        always = ("linkCapacity", "messageSize")
        return {
            name: value for name, value in members.items() if name in always or value is not None
        }


class PlannedTtl(Sparse):
    """Bounds of the time to live."""

    minimum_ms: U64 | None = None
    maximum_ms: U64 | None = None


class PlannedRedelivery(Sparse):
    """Delivery attempts and delays."""

    attempts: U32 | None = None
    delay_ms: U64 | None = None
    delay_multiplier: Annotated[float, Field(ge=1)] | None = None
    delay_maximum_ms: U64 | None = None
    reject_is_failure: bool | None = None


class PlannedRetention(Sparse):
    """Retention of a stream."""

    bytes: U64 | None = None
    age_ms: U64 | None = None


class PlannedDuplicateDetection(Model):
    """Duplicate detection."""

    ids: U32
    window_ms: U64


class PlannedSubscription(Model):
    """The topic of a subscription."""

    topic: Name
    max_consumers: U32


class PlannedAddress(Sparse, NodeSettings):
    """One address, with the settings that reach a node as they are declared. A subscription's name
    is `topic::address`.
    """

    uid: str
    name: Name
    type: AddressType
    limits: AddressLimits = AddressLimits()
    durability: Literal["disk", "memory"] | None = None
    ttl: PlannedTtl | None = None
    redelivery: PlannedRedelivery | None = None
    deadletter: str | None = None
    expiry: str | None = None
    retention: PlannedRetention | None = None
    partitions: U32 | None = None
    duplicate_detection: PlannedDuplicateDetection | None = None
    subscription: PlannedSubscription | None = None

    @cached_property
    def json_text(self) -> str:
        """The address in the node's form; cached, because most addresses never change."""
        return self.model_dump_json(by_alias=True)


class Right(Model):
    """Operations on addresses that match a pattern."""

    pattern: str
    operations: tuple[Operation, ...]


class PlannedUser(Model):
    """A user with rights."""

    name: str
    verifiers: tuple[Verifier, ...] = ()
    rights: tuple[Right, ...] = ()


class Authentication(Sparse):
    """Authentication of a space."""

    type: Literal["none", "standard", "delegated"]
    anonymous: bool
    mechanisms: tuple[str, ...]
    service: str | None = None
    """The service for tokens, and for passwords if delegated. It changes with everything that its
    answers depend on.
    """


class SpaceLimits(Model):
    """Limits of a space on one node; None means unlimited."""

    connections: U32 | None = None
    links: U32 | None = None
    links_per_connection: U32 | None = None
    messages_per_second: U64 | None = None
    bytes_per_second: U64 | None = None
    exhausted: bool = False
    """The allowance of the period is used up: senders get no credit."""

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit limits that are not set, except those that are always present."""
        always = ("connections", "links")
        return {name: one for name, one in serialize(self).items() if name in always or one}


class MqttStorage(Model):
    """Bounds of what a space keeps for clients of MQTT."""

    retained_messages: U64 = 100_000
    """Maximum retained messages, one for each topic."""

    retained_bytes: U64 = 256 * 1024 * 1024
    """Maximum bytes of retained messages."""

    sessions: U32 = 10_000
    """Maximum sessions, with the subscriptions and wills of AMQP clients."""

    session_expiry_s: U32 = 7 * 24 * 3600
    """Longest time in seconds that a session is kept without a connection."""


class PlannedSpace(Model):
    """One address space: `names` has the short name, host names of endpoints and, last, the full
    name.
    """

    uid: str
    names: tuple[str, ...]
    authentication: Authentication
    users: tuple[PlannedUser, ...] = ()
    limits: SpaceLimits = SpaceLimits()
    addresses: tuple[PlannedAddress, ...] = ()
    auto_create: tuple[str, ...] = ()
    """Patterns of the names that links may have created."""

    internal: bool = False
    """Only sessions inside the node's process may enter."""

    mqtt: MqttStorage | None = None
    """What it keeps for clients of MQTT; None: neither retained messages nor sessions."""

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        optional = ("autoCreate", "internal", "mqtt")
        return {name: one for name, one in serialize(self).items() if name not in optional or one}

    @cached_property
    def json_text(self) -> str:
        """The space in the node's form."""
        head = self.model_dump_json(by_alias=True, exclude={"addresses"})
        addresses = ",".join(one.json_text for one in self.addresses)
        return f'{head[:-1]},"addresses":[{addresses}]}}'


class Plan(Model):
    """Everything a node serves. `version` increases with every change."""

    version: U64
    default_space: str | None = None
    """Full name of the default space; None: the only space, if there is one."""

    hosts: tuple[str, ...] = ()
    """Host names of the platform, which select no space."""

    spaces: tuple[PlannedSpace, ...] = ()

    def equals_ignoring_version(self, other: "Plan") -> bool:
        """Whether the contents are equal, regardless of versions."""
        return (self.default_space, self.hosts, self.spaces) == (
            other.default_space,
            other.hosts,
            other.spaces,
        )

    def json_text(self) -> str:
        """Return the plan in the node's form."""
        head = self.model_dump_json(by_alias=True, exclude={"spaces"}, exclude_defaults=True)
        spaces = ",".join(space.json_text for space in self.spaces)
        return f'{head[:-1]},"spaces":[{spaces}]}}'
