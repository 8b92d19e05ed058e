"""AddressSpacePlan: the quota and limits of an address space."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.base.kinds import PLAN_VERSIONS
from enmasse.resources.address_plan import (
    DISPLAYED,
    PLAN_COLUMNS,
    Display,
    below_spec,
)
from enmasse.resources.address_space import known_type
from enmasse.resources.model import Administered, Column, Model
from enmasse.resources.quantities import Count, Credit, LinkCount, MessageSize, Size

DEFINED_BY = "enmasse.io/defined-by"
"""Annotation with the name of the infra config, in the older form."""

NEEDED = {"standard": ("router", "broker", "aggregate"), "brokered": ("broker",)}
"""Required quota fields of each type."""


class ResourceLimits(Model):
    """Quota: routers and brokers for all addresses of a space."""

    router: Credit | None = None
    """Routers."""

    broker: Credit | None = None
    """Brokers."""

    aggregate: Credit | None = None
    """Both together."""


class Allowance(Model):
    """Allowance of a period. Once it is used up, senders get no credit until the next period."""

    period: Literal["day", "month"] = "month"
    """The period; days and months are in UTC."""

    messages: Count | None = None
    """Messages."""

    bytes: Size | None = None
    """Bytes of messages."""


class SpaceLimits(Model):
    """Limits of an address space; those of connections, links and rates apply per node."""

    addresses: Count | None = None
    """Maximum addresses, independent of their credit."""

    connections: LinkCount | None = None
    """Maximum connections."""

    links: LinkCount | None = None
    """Maximum senders and receivers of all connections."""

    links_per_connection: LinkCount | None = None
    """Maximum senders and receivers of one connection."""

    message_size: MessageSize | None = None
    """Maximum message size in bytes."""

    messages_per_second: Count | None = None
    """Messages per second from all senders; beyond it senders get no credit."""

    bytes_per_second: Size | None = None
    """Bytes per second from all senders; beyond it senders get no credit."""

    mqtt_sessions: LinkCount | None = None
    """Maximum MQTT sessions, with the subscriptions and wills of AMQP clients; default: 10,000."""

    retained_messages: Count | None = None
    """Maximum retained messages, one for each topic; default: 100,000."""

    retained_bytes: Size | None = None
    """Maximum bytes of retained messages; default: 256 MiB."""

    allowance: Allowance | None = None
    """Allowance of a day or a month."""


class AddressSpacePlanSpec(Display):
    """Specification of a plan."""

    address_space_type: Annotated[str, AfterValidator(known_type)]
    """The address space type of the plan: standard or brokered."""

    infra_config_ref: str
    """Name of its StandardInfraConfig or BrokeredInfraConfig."""

    address_plans: tuple[str, ...]
    """Names of the plans for addresses. The first one of a type is the default."""

    resource_limits: ResourceLimits
    """Quota of all addresses."""

    limits: SpaceLimits | None = None
    """Limits of the space."""


class AddressSpacePlan(Administered):
    """A plan for address spaces of one type."""

    columns: ClassVar[tuple[Column, ...]] = (Column("Type", "spec.addressSpaceType"), *PLAN_COLUMNS)
    selectable: ClassVar[tuple[str, ...]] = ("spec.addressSpaceType", "status.phase")
    immutable: ClassVar[tuple[str, ...]] = ("address_space_type",)

    api_version: str = PLAN_VERSIONS[0]
    kind: Literal["AddressSpacePlan"] = Field(default="AddressSpacePlan")
    spec: AddressSpacePlanSpec

    @classmethod
    def present_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Move the fields of a document without `spec` below `spec`."""
        plain = (*DISPLAYED, "addressSpaceType", "addressPlans")
        moved = below_spec(data, plain, ("resources", "max", "resourceLimits"))
        if moved is data:
            return data
        metadata = data.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        named = annotations.get(DEFINED_BY) if isinstance(annotations, dict) else None
        return moved | {"spec": moved["spec"] | ({"infraConfigRef": named} if named else {})}

    @property
    def order(self) -> tuple[float, str]:
        """Position among plans; those without one come last."""
        shown = self.spec.display_order
        return math.inf if shown is None else shown, self.metadata.name

    def faults(self) -> list[Fault]:
        """Return missing quota fields."""
        type_ = self.spec.address_space_type
        return [
            Fault(f"spec.resourceLimits.{name}", f"is required for address spaces of type {type_}")
            for name in NEEDED[type_]
            if getattr(self.spec.resource_limits, name) is None
        ]
