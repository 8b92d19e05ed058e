"""AddressSpace: a tenant's own set of addresses and users, which no other space can see."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from enmasse.resources.model import AGE, Column, Declared, Metadata, Model, label

TYPES = ("standard", "brokered")
"""Every type there is."""

SERVED_TYPES = ("standard",)
"""The types this node can serve."""

Authentication = Literal["none", "standard"]

SERVICE_NAMES: dict[str, Authentication] = {
    "none": "none",
    "none-authservice": "none",
    "standard": "standard",
    "standard-authservice": "standard",
}
"""Authentication services by name, and what type each is."""


def _served_type(value: str) -> str:
    served = ", ".join(SERVED_TYPES)
    if value not in TYPES:
        raise ValueError(f"{value!r} is not a type of address space; this node serves {served}")
    if value not in SERVED_TYPES:
        raise ValueError(f"{value!r} cannot be served by this node; it serves {served}")
    return value


def _service_name(value: str) -> str:
    if value not in SERVICE_NAMES:
        known = ", ".join(SERVICE_NAMES)
        raise ValueError(f"there is no authentication service {value!r}; there are {known}")
    return value


class AddressSpaceMetadata(Metadata):
    """Metadata of an address space."""

    name: Annotated[str, AfterValidator(label)]
    """Name of the space: one part, without dots."""


class AuthenticationService(Model):
    """Who checks the users of a space."""

    name: Annotated[str, AfterValidator(_service_name)] | None = None
    """Name of the service: `none` or `standard` (or `none-authservice`, `standard-authservice`)."""

    type: Authentication | None = None
    """`none` lets everybody in, `standard` asks for a user of the space."""

    @model_validator(mode="after")
    def _agree(self) -> "AuthenticationService":
        if self.name and self.type and SERVICE_NAMES[self.name] != self.type:
            raise ValueError(f"service {self.name!r} is not of type {self.type!r}; leave one out")
        return self

    @property
    def authentication(self) -> Authentication | None:
        """What name or type come to; None if neither is given."""
        return SERVICE_NAMES[self.name] if self.name else self.type


class AddressSpaceSpec(Model):
    """What an address space is. `type` cannot change later."""

    type: Annotated[str, AfterValidator(_served_type)]
    """Kind of space: standard."""

    plan: str | None = None
    """Name of a plan. Any name is accepted until plans exist."""

    authentication_service: AuthenticationService | None = None
    """Who checks users. Left out: nobody while the space has no user, else `standard`."""


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

    def authentication(self, *, has_users: bool) -> Authentication:
        """Return who may come in: `none` is everybody, `standard` the users of the space."""
        service = self.spec.authentication_service
        declared = service.authentication if service else None
        return declared or ("standard" if has_users else "none")
