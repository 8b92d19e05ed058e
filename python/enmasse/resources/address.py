"""Address: a name that clients send to and receive from, and what happens to messages there."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources import address_rules
from enmasse.resources.forwarders import FORWARDERS_MAX, Forwarder, ForwarderStatus
from enmasse.resources.model import (
    AGE,
    Column,
    Declared,
    Metadata,
    Model,
    Status,
    name_in_space,
)
from enmasse.resources.quantities import (
    Count,
    Credit,
    Delay,
    Duration,
    LinkCount,
    MessageSize,
    Size,
)

TYPES = ("anycast", "multicast", "queue", "topic", "subscription", "deadletter")
"""Every type there is."""

SERVED_TYPES = TYPES
"""The types this node can serve; an address of another type is refused when it is declared."""

ADDRESS_BYTES_MAX = 1024
"""Longest address. MQTT would allow 65535 bytes; other brokers stop between 255 and 4096."""

OPEN_NAME_SPACE = "#"
"""The one declared address that stands for every name nothing else covers."""

PARTITIONS_MAX = 1024
"""Most partitions of a stream; each has files and an index of its own."""

DELIVERY_ATTEMPTS_MAX = 65_535
NO_LIMIT = -1
"""Delivery attempts without a limit."""

CONSUMERS_DEFAULT = 1
"""Consumers of a subscription at a time, where nothing else is said."""


def _address(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    if len(value.encode()) > ADDRESS_BYTES_MAX:
        raise ValueError(f"is longer than {ADDRESS_BYTES_MAX} bytes")
    if value != value.strip(" "):
        raise ValueError("must not begin or end with a space")
    # Of white space `isprintable` takes the space alone.
    if not value.isprintable():
        raise ValueError("must not contain control characters, or white space other than spaces")
    if value.startswith(("_!", "$")):
        raise ValueError("must not begin with `_!` or `$`: those names belong to the node")
    if value != OPEN_NAME_SPACE and ("*" in value or {"+", "#"} & set(value.split("/"))):
        raise ValueError(
            "must not have `*` anywhere, nor `+` or `#` as a level: those are wildcards"
            " (`#` alone declares an open name space)"
        )
    return value


def _known_type(value: str) -> str:
    if value not in TYPES:
        raise ValueError(f"{value!r} is not an address type; there are {', '.join(TYPES)}")
    return value


def _delivery_attempts(value: int) -> int:
    if value != NO_LIMIT and not 1 <= value <= DELIVERY_ATTEMPTS_MAX:
        raise ValueError(f"must be 1 to {DELIVERY_ATTEMPTS_MAX}, or {NO_LIMIT} for no limit")
    return value


class AddressMetadata(Metadata):
    """Metadata of an address."""

    name: Annotated[str, AfterValidator(name_in_space)]
    """`<space>.<name>`; the first part names the address space."""


class MessageTtl(Model):
    """How long messages live; a message's own time is brought between the two."""

    minimum: Duration | None = None
    """Shortest life, in milliseconds."""

    maximum: Duration | None = None
    """Longest life, in milliseconds; a message that names none gets this one."""


class MessageRedelivery(Model):
    """How often a message is tried, and when again after a delivery that failed."""

    maximum_delivery_attempts: (
        Annotated[int, Field(strict=True), AfterValidator(_delivery_attempts)] | None
    ) = None
    """Deliveries after which a message is a dead letter; -1 has no limit."""

    redelivery_delay: Delay | None = None
    """Wait before the second attempt, in milliseconds."""

    redelivery_delay_multiplier: (
        Annotated[float, Field(strict=True, ge=1, le=1000, allow_inf_nan=False)] | None
    ) = None
    """Each further wait is this many times the one before."""

    maximum_delivery_delay: Delay | None = None
    """Longest wait, in milliseconds."""


class Subscription(Model):
    """What only a subscription has."""

    max_consumers: LinkCount | None = None
    """Consumers at a time; one more is refused. 1 if left out, and it cannot change."""


class DuplicateDetection(Model):
    """How message ids are remembered, so that a message sent twice is stored once."""

    ids: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    """Ids remembered, the newest ones."""

    window: Duration | None = None
    """How long an id is remembered, in milliseconds."""


class Retention(Model):
    """How much a stream keeps: what is beyond either bound is dropped, oldest first."""

    bytes: Size | None = None
    """Bytes of each partition."""

    age: Duration | None = None
    """Age of a message, in milliseconds."""


class Limits(Model):
    """Bounds of an address."""

    messages: Count | None = None
    """Messages stored."""

    bytes: Size | None = None
    """Bytes stored."""

    message_size: MessageSize | None = None
    """Bytes of one message."""

    consumers: LinkCount | None = None
    """Receivers at a time; one more is refused."""

    producers: LinkCount | None = None
    """Senders at a time; one more is refused."""

    on_full: Literal["block", "reject", "dropOldest"] | None = None
    """At `messages` or `bytes`: senders wait, messages are refused, or the oldest one goes."""


class AddressSpec(Model):
    """What an address is. Fields that do not go with its type are refused."""

    type: Annotated[str, AfterValidator(_known_type)]
    """What happens to messages: anycast (one consumer each), multicast (every consumer), queue or
    deadletter (kept for one consumer each), topic (kept for each subscription), subscription."""

    address: Annotated[str, AfterValidator(_address)]
    """The name that clients use."""

    plan: str | None = None
    """Name of a plan, one that the plan of the address space offers for the type. Left out: the
    first of those."""

    topic: str | None = None
    """The topic a subscription belongs to, by the name that clients use."""

    subscription: Subscription | None = None
    """What only a subscription has."""

    deadletter: str | None = None
    """Address of type deadletter for messages that failed for good."""

    expiry: str | None = None
    """Address of type deadletter for messages that lived too long."""

    message_ttl: MessageTtl | None = None
    """How long messages live."""

    message_redelivery: MessageRedelivery | None = None
    """How often a message is tried, and when again."""

    treat_reject_as_unmodified_delivery_failed: Annotated[bool, Field(strict=True)] | None = None
    """A rejected message counts as a failed delivery and stays."""

    durability: Literal["disk", "memory"] | None = None
    """Where accepted messages are kept: disk if left out."""

    duplicate_detection: DuplicateDetection | None = None
    """Messages sent twice are stored once, by their message-id."""

    retention: Retention | None = None
    """Makes a topic a stream, and says how much it keeps."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=PARTITIONS_MAX)] | None = None
    """Partitions of a stream; 1 if left out, and they can only become more."""

    limits: Limits | None = None
    """Bounds of the address."""

    last_value_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Application property of which only the last message of each value is kept."""

    single_active_consumer: Annotated[bool, Field(strict=True)] | None = None
    """One consumer at a time gets messages; the others wait to take over."""

    groups: Literal["none", "sticky", "perKey"] | None = None
    """What messages of one group-id share: nothing, their consumer, or their order."""

    forwarders: Annotated[tuple[Forwarder, ...], Field(max_length=FORWARDERS_MAX)] | None = None
    """Pumps between the address and addresses of connectors. Kept, and no message passes: no
    connector is opened."""


class PlanResources(Model):
    """Credit: a share of what one router and one broker can do."""

    router: Credit | None = None
    """Of routers."""

    broker: Credit | None = None
    """Of brokers."""


class AppliedPlan(Model):
    """The plan that is in force."""

    name: str
    partitions: int
    """Shares that the credit of brokers is divided into."""

    resources: PlanResources
    """Credit it counts for in the quota of the address space."""


class AddressStatus(Status):
    """What the control plane has found out about an address, and what holds for its messages: what
    was declared, with what a subscription has from its topic and with defaults."""

    message_ttl: MessageTtl | None = None
    """How long messages live; left out where nothing bounds it."""

    message_redelivery: MessageRedelivery | None = None
    """How often a message is tried; left out where it is tried for ever and at once."""

    subscription: Subscription | None = None
    """Consumers of a subscription."""

    limits: Limits | None = None
    """Bounds in force: the smaller of what the address and its plans say."""

    forwarders: tuple[ForwarderStatus, ...] | None = None
    """Whether its forwarders work."""

    plan_status: AppliedPlan | None = None
    """The plan in force. Left out while the address waits for room in the quota."""


class Address(Declared):
    """A declared address."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Address", "spec.address"),
        Column("Type", "spec.type"),
        Column("Plan", "spec.plan"),
        Column("Ready", "status.isReady", "boolean"),
        Column("Phase", "status.phase"),
        Column("Status", "status.messages"),
        Column("Topic", "spec.topic", priority=1),
        Column("Dead letter", "spec.deadletter", priority=1),
        AGE,
    )
    live_columns: ClassVar[tuple[Column, ...]] = (
        Column("Stored", "stored.messages", "integer"),
        Column("Senders", "senders", "integer"),
        Column("Receivers", "receivers", "integer"),
        Column("In/s", "enqueuedPerSecond", "number", priority=1),
        Column("Out/s", "deliveredPerSecond", "number"),
    )
    selectable: ClassVar[tuple[str, ...]] = (
        *("spec.address", "spec.type", "spec.plan", "spec.topic"),
        *("status.phase", "status.isReady"),
    )
    immutable: ClassVar[tuple[str, ...]] = ("type", "address", "topic")

    kind: Literal["Address"] = Field(default="Address")
    metadata: AddressMetadata
    spec: AddressSpec
    status: AddressStatus = AddressStatus()

    @property
    def is_complete(self) -> bool:
        """Whether it names a plan."""
        return self.spec.plan is not None

    @property
    def name(self) -> str:
        """What clients attach to: the address, or for a subscription `topic::address`."""
        if self.spec.type == "subscription":
            return f"{self.spec.topic}::{self.spec.address}"
        return self.spec.address

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that no other address of the space may have."""
        return tuple(dict.fromkeys((self.spec.address, self.name)))

    @property
    def needs_others(self) -> int:
        """Dead letters first, then what may name them, then subscriptions, which name a topic."""
        return {"deadletter": 0, "subscription": 2}.get(self.spec.type, 1)

    @property
    def max_consumers(self) -> int:
        """Consumers of a subscription at a time."""
        return (
            self.spec.subscription and self.spec.subscription.max_consumers
        ) or CONSUMERS_DEFAULT

    def faults(self) -> list[Fault]:
        """Return what is wrong with fields that are each right by themselves."""
        return address_rules.faults(self)

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return the faults of changing `before` into this."""
        return [*super().refused_changes(before), *address_rules.refused_changes(self, before)]
