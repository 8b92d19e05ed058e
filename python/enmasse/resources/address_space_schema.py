"""AddressSpaceSchema: what a tenant can choose from, one object for each type of address space.

Nobody declares one: it is made from the plans and services that are there.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from enmasse.base.kinds import API_VERSION
from enmasse.resources.address import PlanResources
from enmasse.resources.address_space_plan import ResourceLimits
from enmasse.resources.model import AGE, Column, Metadata, Model, Resource, dotted_name


class AddressSpaceSchemaMetadata(Metadata):
    """Metadata of what lives in no namespace."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """The type of address space."""

    namespace: Literal[""] = ""
    """Always empty."""


class AddressPlanChoice(Model):
    """A plan that addresses may have."""

    name: str
    display_name: str | None = None
    description: str | None = None
    resources: PlanResources = PlanResources()


class AddressTypeChoice(Model):
    """A type of address, and its plans."""

    name: str
    description: str
    plans: tuple[AddressPlanChoice, ...] = ()


class SpacePlanChoice(Model):
    """A plan that spaces may have."""

    name: str
    display_name: str | None = None
    description: str | None = None
    resource_limits: ResourceLimits = ResourceLimits()


class Described(Model):
    """Something that has a name and a few words about it."""

    name: str
    display_name: str | None = None
    description: str | None = None


class RouteServicePort(Described):
    """A port that can be reached from outside."""

    route_tls_terminations: tuple[str, ...] = ()


class AddressSpaceSchemaSpec(Model):
    """What can be chosen."""

    description: str
    address_types: tuple[AddressTypeChoice, ...] = ()
    plans: tuple[SpacePlanChoice, ...] = ()
    """Plans of spaces, the first of which is taken where a space names none."""

    authentication_services: tuple[str, ...] = ()
    """Names of services."""

    certificate_provider_types: tuple[Described, ...] = ()
    endpoint_expose_types: tuple[Described, ...] = ()
    route_service_ports: tuple[RouteServicePort, ...] = ()


class AddressSpaceSchema(Resource):
    """What can be chosen for address spaces of one type."""

    read_only: ClassVar[bool] = True
    categories: ClassVar[tuple[str, ...]] = ("enmasse",)
    columns: ClassVar[tuple[Column, ...]] = (Column("Description", "spec.description"), AGE)

    api_version: str = API_VERSION
    kind: Literal["AddressSpaceSchema"] = Field(default="AddressSpaceSchema")
    metadata: AddressSpaceSchemaMetadata
    spec: AddressSpaceSchemaSpec
