"""AddressSpacePlan: what a tenant may have in one address space."""

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
"""Annotation that names the infra config in the older form."""

NEEDED = {"standard": ("router", "broker", "aggregate"), "brokered": ("broker",)}
"""What the quota of each type has to say."""


class ResourceLimits(Model):
    """Quota: how many routers and brokers the addresses of a space may come to."""

    router: Credit | None = None
    """Routers."""

    broker: Credit | None = None
    """Brokers."""

    aggregate: Credit | None = None
    """Both together."""


class Allowance(Model):
    """What may be sent into an address space in a period. Once one of it is used up, senders get no
    credit until the next period."""

    period: Literal["day", "month"] = "month"
    """How long it is for; days and months are those of UTC."""

    messages: Count | None = None
    """Messages."""

    bytes: Size | None = None
    """Bytes of messages."""


class SpaceLimits(Model):
    """Bounds of an address space; those of connections, links and rates on each node."""

    addresses: Count | None = None
    """Addresses, whatever their credit; one more is refused."""

    connections: LinkCount | None = None
    """Connections at a time; one more is refused."""

    links: LinkCount | None = None
    """Senders and receivers of all connections together; one more is refused."""

    links_per_connection: LinkCount | None = None
    """Senders and receivers of one connection; one more is refused."""

    message_size: MessageSize | None = None
    """Bytes of one message."""

    messages_per_second: Count | None = None
    """Messages sent a second, all senders together; beyond it they wait for credit."""

    bytes_per_second: Size | None = None
    """Bytes of messages sent a second, all senders together; beyond it they wait for credit."""

    allowance: Allowance | None = None
    """What may be sent in a day or a month."""


class AddressSpacePlanSpec(Display):
    """What a plan is."""

    address_space_type: Annotated[str, AfterValidator(known_type)]
    """The type of address space it is for: standard or brokered."""

    infra_config_ref: str
    """Name of the StandardInfraConfig or BrokeredInfraConfig it goes by."""

    address_plans: tuple[str, ...]
    """Names of the plans that addresses may have. Of a type the first is taken where an address
    names none."""

    resource_limits: ResourceLimits
    """Quota: what all addresses may come to."""

    limits: SpaceLimits | None = None
    """Bounds of the space."""


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
        """Return a document whose fields are not below `spec` with them there."""
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
        """Its place among plans; those that name none come last."""
        shown = self.spec.display_order
        return math.inf if shown is None else shown, self.metadata.name

    def faults(self) -> list[Fault]:
        """Return what the quota does not say."""
        type_ = self.spec.address_space_type
        return [
            Fault(f"spec.resourceLimits.{name}", f"is required for address spaces of type {type_}")
            for name in NEEDED[type_]
            if getattr(self.spec.resource_limits, name) is None
        ]
