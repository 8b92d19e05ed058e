"""Address: a named destination for messages."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources import address_rules
from enmasse.resources.forwarders import FORWARDERS_MAX, Forwarder, ForwarderStatus
from enmasse.resources.model import (
    AGE,
    SPACE,
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
"""All types."""

SERVED_TYPES = TYPES
"""The types that this node serves; others are refused at admission."""

ADDRESS_BYTES_MAX = 1024
"""Maximum length of an address. MQTT allows 65,535 bytes; other brokers allow 255 to 4,096."""

OPEN_NAME_SPACE = "#"
"""The address that serves every name without a better match."""

PARTITIONS_MAX = 1024
"""Maximum partitions of a stream; each has its own files and index."""

DELIVERY_ATTEMPTS_MAX = 65_535
NO_LIMIT = -1
"""Unlimited delivery attempts."""

CONSUMERS_DEFAULT = 1
"""Default maximum consumers of a subscription."""


def _address(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    if len(value.encode()) > ADDRESS_BYTES_MAX:
        raise ValueError(f"is longer than {ADDRESS_BYTES_MAX} bytes")
    if value != value.strip(" "):
        raise ValueError("must not begin or end with a space")
    # Of white space, `isprintable` accepts spaces only.
    if not value.isprintable():
        raise ValueError("must not contain control characters, or white space other than spaces")
    if value.startswith(("_!", "$")):
        raise ValueError("must not begin with `_!` or `$`: those names are reserved")
    if value != OPEN_NAME_SPACE and ("*" in value or {"+", "#"} & set(value.split("/"))):
        raise ValueError(
            "must not contain `*`, nor `+` or `#` as a level: they are"
            " wildcards (`#` alone declares an open name space)"
        )
    return value


def _known_type(value: str) -> str:
    if value not in TYPES:
        raise ValueError(f"{value!r} is not an address type; types: {', '.join(TYPES)}")
    return value


def _delivery_attempts(value: int) -> int:
    if value != NO_LIMIT and not 1 <= value <= DELIVERY_ATTEMPTS_MAX:
        raise ValueError(f"must be 1 to {DELIVERY_ATTEMPTS_MAX}, or {NO_LIMIT} for no limit")
    return value


class AddressMetadata(Metadata):
    """Metadata of an address."""

    name: Annotated[str, AfterValidator(name_in_space)]
    """`<space>.<name>`; the first part is the address space."""


class MessageTtl(Model):
    """Bounds of the time to live of messages."""

    minimum: Duration | None = None
    """Minimum time to live, in milliseconds."""

    maximum: Duration | None = None
    """Maximum time to live, in milliseconds; also the default of messages without one."""


class MessageRedelivery(Model):
    """Delivery attempts and delays between them."""

    maximum_delivery_attempts: (
        Annotated[int, Field(strict=True), AfterValidator(_delivery_attempts)] | None
    ) = None
    """Deliveries before a message becomes a dead letter; -1 means unlimited."""

    redelivery_delay: Delay | None = None
    """Delay before the second attempt, in milliseconds."""

    redelivery_delay_multiplier: (
        Annotated[float, Field(strict=True, ge=1, le=1000, allow_inf_nan=False)] | None
    ) = None
    """Factor between consecutive delays."""

    maximum_delivery_delay: Delay | None = None
    """Maximum delay, in milliseconds."""


class Subscription(Model):
    """Settings of a subscription."""

    max_consumers: LinkCount | None = None
    """Maximum consumers; further ones are refused. Default 1; cannot change."""


class DuplicateDetection(Model):
    """Duplicate detection by message-id."""

    ids: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    """Number of remembered ids, the newest ones."""

    window: Duration | None = None
    """How long an id is remembered, in milliseconds."""


class Retention(Model):
    """Retention of a stream: messages beyond either bound are removed, oldest first."""

    bytes: Size | None = None
    """Maximum bytes per partition."""

    age: Duration | None = None
    """Maximum age of a message, in milliseconds."""


class Limits(Model):
    """Limits of an address."""

    messages: Count | None = None
    """Maximum stored messages."""

    bytes: Size | None = None
    """Maximum stored bytes."""

    message_size: MessageSize | None = None
    """Maximum message size in bytes."""

    consumers: LinkCount | None = None
    """Maximum receivers; further ones are refused."""

    producers: LinkCount | None = None
    """Maximum senders; further ones are refused."""

    on_full: Literal["block", "reject", "dropOldest"] | None = None
    """Behaviour at `messages` or `bytes`: block senders, reject messages, or drop the oldest
    message.
    """


class _AddressSpec(Model):
    """Settings of an address that the control plane interprets."""

    type: Annotated[str, AfterValidator(_known_type)]
    """How messages are handled: anycast (one consumer each), multicast (every consumer), queue or
    deadletter (stored for one consumer each), topic (stored for each subscription), subscription.
    """

    address: Annotated[str, AfterValidator(_address)]
    """The name that clients use."""

    plan: str | None = None
    """Name of a plan that the plan of the address space offers for the type. Default: the first
    one.
    """

    topic: str | None = None
    """The topic of a subscription, by the name that clients use."""

    subscription: Subscription | None = None
    """Settings of a subscription."""

    deadletter: str | None = None
    "Address of type deadletter for messages that exhausted their attempts."

    expiry: str | None = None
    """Address of type deadletter for expired messages."""

    message_ttl: MessageTtl | None = None
    """Bounds of the time to live."""

    message_redelivery: MessageRedelivery | None = None
    """Delivery attempts and delays."""

    treat_reject_as_unmodified_delivery_failed: Annotated[bool, Field(strict=True)] | None = None
    """A rejected message counts as a failed delivery and stays."""

    durability: Literal["disk", "memory"] | None = None
    """Storage of accepted messages; default disk."""

    duplicate_detection: DuplicateDetection | None = None
    """Duplicate detection by message-id."""

    retention: Retention | None = None
    """Makes a topic a stream with this retention."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=PARTITIONS_MAX)] | None = None
    """Partitions of a stream; default 1. The number can only increase."""

    limits: Limits | None = None
    """Limits of the address."""


class NodeSettings(Model):
    """Settings of an address that a node gets as they are declared.

    The Plan has them too (`enmasse.plan.model`), so a field of this class needs no other line of
    Python. The node's struct is checked against the schema of the Plan.
    """

    last_value_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Application property; the queue keeps the latest message of each value."""

    single_active_consumer: Annotated[bool, Field(strict=True)] | None = None
    """One consumer at a time receives messages; the others wait to take over."""

    groups: Literal["none", "sticky", "perKey"] | None = None
    """Handling of messages with the same group-id: none, the same consumer, or their order only."""

    protocols: (
        Annotated[tuple[Literal["amqp", "mqtt"], ...], Field(min_length=1, max_length=2)] | None
    ) = None
    """Protocols whose clients may use the address; to those of others it does not exist. Default:
    all.
    """


class AddressSpec(NodeSettings, _AddressSpec):
    """Specification of an address. Fields that its type does not support are refused."""

    forwarders: Annotated[tuple[Forwarder, ...], Field(max_length=FORWARDERS_MAX)] | None = None
    """Forwarders between the address and addresses of connectors. Stored but not implemented."""


class PlanResources(Model):
    """Credit: a share of one router and one broker."""

    router: Credit | None = None
    """Share of routers."""

    broker: Credit | None = None
    """Share of brokers."""


class AppliedPlan(Model):
    """The plan that is in force."""

    name: str
    partitions: int
    """Number of shares that the broker credit is divided into."""

    resources: PlanResources
    """Credit that counts against the quota of the address space."""


class AddressStatus(Status):
    """Observed state of an address, and the values in force, including defaults and those of its
    topic.
    """

    message_ttl: MessageTtl | None = None
    """Bounds of the time to live; absent if unlimited."""

    message_redelivery: MessageRedelivery | None = None
    """Delivery attempts and delays; absent if unlimited and immediate."""

    subscription: Subscription | None = None
    """Settings of a subscription."""

    limits: Limits | None = None
    """Limits in force: the smaller of those of the address and its plans."""

    forwarders: tuple[ForwarderStatus, ...] | None = None
    """Observed state of forwarders."""

    plan_status: AppliedPlan | None = None
    """The plan in force. Absent while the address is pending because of the quota."""


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
        SPACE,
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
        """The name for clients: the address, or `topic::address` for a subscription."""
        if self.spec.type == "subscription":
            return f"{self.spec.topic}::{self.spec.address}"
        return self.spec.address

    @property
    def names(self) -> tuple[str, ...]:
        """Names that must be unique in the space."""
        return tuple(dict.fromkeys((self.spec.address, self.name)))

    @property
    def needs_others(self) -> int:
        """Order of application: dead letters, then addresses that reference them, then
        subscriptions.
        """
        return {"deadletter": 0, "subscription": 2}.get(self.spec.type, 1)

    @property
    def max_consumers(self) -> int:
        """Maximum consumers of a subscription."""
        return (
            self.spec.subscription and self.spec.subscription.max_consumers
        ) or CONSUMERS_DEFAULT

    def faults(self) -> list[Fault]:
        """Return errors of combinations of valid fields."""
        return address_rules.faults(self)

    def refused_changes(self, before: Self) -> list[Fault]:
        """Return errors of changing `before` into this."""
        return [*super().refused_changes(before), *address_rules.refused_changes(self, before)]
