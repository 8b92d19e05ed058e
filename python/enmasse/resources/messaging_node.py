"""MessagingNode: a process of the platform, as its heartbeats report it.

The platform creates one for each process with the same store. Administrators cordon it, and delete
it once its process has gone for good.
"""

from typing import ClassVar, Literal

from pydantic import Field

from enmasse.base.kinds import ADMIN_VERSION
from enmasse.resources.model import AGE, Administered, Column, Model, ReportedStatus

CORDONED = "Cordoned"
"""The condition that is True while a node refuses new connections."""


class MessagingNodeSpec(Model):
    """What administrators ask of a node."""

    cordoned: bool = False
    """The node refuses new connections and keeps the open ones."""


class NodeEndpoint(Model):
    """A listener of a node."""

    host: str
    port: int


class NodeLoad(Model):
    """The load of a node. It is written when it moves by 20 %, at most every 30 s."""

    connections: int = 0
    """Connections of clients."""

    messages_per_second: float = 0.0
    """Messages received from clients and delivered to clients, per second."""


class MessagingNodeStatus(ReportedStatus):
    """Observed state of a node."""

    uid: str | None = None
    """Identity of the node, which is in its data folder."""

    start: int | None = None
    """Number of its last start."""

    role: Literal["leader", "standby"] | None = None
    """The leader serves messaging and writes statuses."""

    zone: str | None = None
    """The zone that it was started with."""

    version: str | None = None
    """Its version of EnMasse."""

    feature_level: int | None = None
    """The highest level of fields and encodings that it reads."""

    endpoints: dict[str, NodeEndpoint] = Field(default_factory=dict)
    """Its listeners, by kind."""

    load: NodeLoad | None = None
    """Its load."""


class MessagingNode(Administered):
    """A process of the platform."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Ready", "status.isReady", "boolean"),
        Column("Cordoned", "spec.cordoned", "boolean"),
        Column("Role", "status.role"),
        Column("Zone", "status.zone"),
        Column("Version", "status.version"),
        Column("Connections", "status.load.connections", "integer"),
        Column("Messages/s", "status.load.messagesPerSecond", "number"),
        Column("Status", "status.message", priority=1),
        AGE,
    )

    api_version: str = ADMIN_VERSION
    kind: Literal["MessagingNode"] = Field(default="MessagingNode")
    spec: MessagingNodeSpec = MessagingNodeSpec()
    status: MessagingNodeStatus = MessagingNodeStatus()
