"""AddressSpaceSchema: the choices of a tenant, one object per address space type.

It is generated from the present plans and services, and read-only.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from enmasse.base.kinds import API_VERSION
from enmasse.resources.address import Limits, MessageRedelivery, MessageTtl, PlanResources
from enmasse.resources.address_space_plan import ResourceLimits, SpaceLimits
from enmasse.resources.model import AGE, Column, Metadata, Model, Resource, dotted_name


class AddressSpaceSchemaMetadata(Metadata):
    """Metadata of a cluster-scoped resource."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """The type of address space."""

    namespace: Literal[""] = ""
    """Always empty."""


class AddressPlanChoice(Model):
    """A plan for addresses."""

    name: str
    display_name: str | None = None
    description: str | None = None
    resources: PlanResources = PlanResources()
    """Credit of an address."""

    partitions: int | None = None
    """Minimum number of brokers that the credit of a queue is divided over; default 1."""

    message_ttl: MessageTtl | None = None
    """Bounds of the time to live; the stricter of plan and address applies."""

    message_redelivery: MessageRedelivery | None = None
    """Default delivery attempts and delays of addresses."""

    limits: Limits | None = None
    """Limits; the smaller of plan and address applies."""


class AddressTypeChoice(Model):
    """An address type and its plans."""

    name: str
    description: str
    plans: tuple[AddressPlanChoice, ...] = ()


class SpacePlanChoice(Model):
    """A plan for spaces."""

    name: str
    display_name: str | None = None
    description: str | None = None
    address_plans: tuple[str, ...] = ()
    """Names of the plans for addresses. The first one of a type is the default."""

    resource_limits: ResourceLimits = ResourceLimits()
    """Quota of all addresses."""

    limits: SpaceLimits | None = None
    """Limits of the space, and its allowance."""


class Described(Model):
    """A name with a description."""

    name: str
    display_name: str | None = None
    description: str | None = None


class RouteServicePort(Described):
    """A port that other machines can reach."""

    route_tls_terminations: tuple[str, ...] = ()


class AddressSpaceSchemaSpec(Model):
    """The available choices."""

    description: str
    address_types: tuple[AddressTypeChoice, ...] = ()
    plans: tuple[SpacePlanChoice, ...] = ()
    """Plans for spaces; the first one is the default."""

    authentication_services: tuple[str, ...] = ()
    """Names of authentication services."""

    certificate_provider_types: tuple[Described, ...] = ()
    endpoint_expose_types: tuple[Described, ...] = ()
    route_service_ports: tuple[RouteServicePort, ...] = ()


class AddressSpaceSchema(Resource):
    """The choices for address spaces of one type."""

    read_only: ClassVar[bool] = True
    categories: ClassVar[tuple[str, ...]] = ("enmasse",)
    columns: ClassVar[tuple[Column, ...]] = (Column("Description", "spec.description"), AGE)

    api_version: str = API_VERSION
    kind: Literal["AddressSpaceSchema"] = Field(default="AddressSpaceSchema")
    metadata: AddressSpaceSchemaMetadata
    spec: AddressSpaceSchemaSpec
