"""AddressSpace: a tenant's own set of addresses and users, which no other space can see."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from enmasse.resources.model import AGE, Column, Declared, Metadata, Model, Status, label

TYPES = ("standard", "brokered")
"""Every type there is."""

ADDRESS_TYPES = {
    "standard": ("anycast", "multicast", "queue", "topic", "subscription", "deadletter"),
    "brokered": ("queue", "topic", "subscription", "deadletter"),
}
"""The types of address that a type of space can have."""

Authentication = Literal["none", "standard", "external", "keycloak"]

BUILT_IN: dict[str, Authentication] = {
    "none": "none",
    "none-authservice": "none",
    "standard": "standard",
    "standard-authservice": "standard",
}
"""Authentication services that are there without being declared, and what type each is."""


def known_type(value: str) -> str:
    """Check the name of a type of address space."""
    if value not in TYPES:
        there = " and ".join(TYPES)
        raise ValueError(f"{value!r} is not a type of address space; there are {there}")
    return value


class AddressSpaceMetadata(Metadata):
    """Metadata of an address space."""

    name: Annotated[str, AfterValidator(label)]
    """Name of the space: one part, without dots."""


class SecretReference(Model):
    """A secret in the namespace of the space."""

    name: str | None = None


class Overrides(Model):
    """What of an external service is another for one space, if the service allows that."""

    host: str | None = None
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    realm: str | None = None
    """What the service is told of the space, as the host name of SASL."""

    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None


class AuthenticationServiceChoice(Model):
    """Who checks the users of a space."""

    name: str | None = None
    """Name of an AuthenticationService; `none` and `standard` are always there."""

    type: Literal["none", "standard"] | None = None
    """`none` lets everybody in, `standard` asks for a user of the space."""

    overrides: Overrides | None = None
    """What of an external service is another for this space."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.name and self.type and BUILT_IN.get(self.name, self.type) != self.type:
            raise ValueError(f"service {self.name!r} is not of type {self.type!r}; leave one out")
        return self


class AddressSpaceSpec(Model):
    """What an address space is. `type` cannot change later."""

    type: Annotated[str, AfterValidator(known_type)]
    """Kind of space: standard, or brokered (queue, topic, subscription and deadletter only)."""

    plan: str | None = None
    """Name of a plan of that type. Left out: the first of those."""

    authentication_service: AuthenticationServiceChoice | None = None
    """Who checks users. Left out: nobody while the space has no user, else `standard`."""


PERIODS_KEPT = 13
"""Periods of which a space keeps a record: the present one and those before it."""


class Usage(Model):
    """What an address space has come to in one period."""

    period: str
    """A month, such as `2026-11`, or a day, such as `2026-11-30`, of UTC."""

    messages_in: int = 0
    """Messages that clients sent."""

    bytes_in: int = 0
    """Bytes of those."""

    messages_out: int = 0
    """Deliveries to clients."""

    bytes_out: int = 0
    """Bytes of those."""

    connections: int = 0
    """Most connections that were seen at one time; it is looked every second."""

    stored_bytes: int = 0
    """Most bytes that were seen at rest; it is looked every minute."""


class AddressSpaceStatus(Status):
    """What the control plane has found out about an address space."""

    usage: tuple[Usage, ...] | None = None
    """What it has come to in the present period and the 12 before it in which it was used, the
    present one first. Written every minute."""


class AddressSpace(Declared):
    """A declared address space."""

    plural: ClassVar[str] = "addressspaces"
    short_names: ClassVar[tuple[str, ...]] = ("as",)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Type", "spec.type"),
        Column("Plan", "spec.plan"),
        Column("Ready", "status.isReady", "boolean"),
        Column("Phase", "status.phase"),
        Column("Status", "status.messages"),
        AGE,
    )
    selectable: ClassVar[tuple[str, ...]] = (
        *("spec.type", "spec.plan", "status.phase", "status.isReady"),
    )
    immutable: ClassVar[tuple[str, ...]] = ("type",)

    kind: Literal["AddressSpace"] = Field(default="AddressSpace")
    metadata: AddressSpaceMetadata
    spec: AddressSpaceSpec
    status: AddressSpaceStatus = AddressSpaceStatus()

    @property
    def service_name(self) -> str | None:
        """Name of the authentication service it asks for."""
        service = self.spec.authentication_service
        return service.name if service else None

    @property
    def overrides(self) -> Overrides | None:
        """What of its authentication service is another for it."""
        service = self.spec.authentication_service
        return service.overrides if service else None

    def authentication(
        self, *, has_users: bool, services: Mapping[str, Authentication] = BUILT_IN
    ) -> Authentication:
        """Return who may come in: `none` is everybody, `standard` the users of the space, else
        whom a service elsewhere lets in.

        `services` are the authentication services by name. A service that is not there lets in
        nobody but users.
        """
        service = self.spec.authentication_service or AuthenticationServiceChoice()
        if service.name:
            return services.get(service.name, "standard")
        return service.type or ("standard" if has_users else "none")
