"""AuthenticationService: who can check the users of address spaces.

`none` lets everybody in; `standard` checks MessagingUsers, in this process. What is about pods and
their database is kept as it is and counts on a cluster only.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from enmasse.base.errors import Fault
from enmasse.resources.model import (
    ADMIN_VERSION,
    AGE,
    Administered,
    Column,
    Model,
    ToldStatus,
)

Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]


class SecretReference(Model):
    """A secret."""

    name: str | None = None
    namespace: str | None = None


class Image(Model):
    """What a container runs."""

    name: str | None = None
    pull_policy: str | None = None


class Amounts(Model):
    """Of processors and of memory."""

    cpu: str | None = None
    memory: str | None = None


class ResourceRequirements(Model):
    """What a container asks for, and what it never gets more of."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class NoneService(Model):
    """Settings of a service that lets everybody in."""

    certificate_secret: SecretReference | None = None
    image: Image | None = None
    replicas: int | None = None
    resources: ResourceRequirements | None = None


class Storage(Model):
    """Where the users of a service are."""

    type: Literal["ephemeral", "persistent-claim"]
    size: str | None = None
    class_: str | None = Field(default=None, alias="class")
    claim_name: str | None = None
    delete_claim: bool | None = None


class Datasource(Model):
    """The database of a service."""

    type: Literal["h2", "postgresql"]
    host: str | None = None
    port: Port | None = None
    database: str | None = None
    credentials_secret: SecretReference | None = None


class StandardService(Model):
    """Settings of a service that has users."""

    credentials_secret: SecretReference | None = None
    certificate_secret: SecretReference | None = None
    image: Image | None = None
    init_image: Image | None = None
    jvm_options: str | None = None
    deployment_name: str | None = None
    service_name: str | None = None
    route_name: str | None = None
    replicas: int | None = None
    resources: ResourceRequirements | None = None
    security_context: dict[str, Any] | None = None
    storage: Storage | None = None
    datasource: Datasource | None = None


class ExternalService(Model):
    """A service elsewhere."""

    host: str
    port: Port
    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None
    allow_override: bool | None = None


class AuthenticationServiceSpec(Model):
    """What a service is."""

    type: Literal["none", "standard", "external"]
    """`none` lets everybody in, `standard` has users, `external` asks somebody else."""

    realm: str | None = None
    """One set of users for all spaces; not on this node."""

    none: NoneService | None = None
    """Settings of a service of type none."""

    standard: StandardService | None = None
    """Settings of a service of type standard."""

    external: ExternalService | None = None
    """Settings of a service of type external."""


class AuthenticationServiceStatus(ToldStatus):
    """Whether a service can be used."""

    host: str | None = None
    port: int | None = None
    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None


class AuthenticationService(Administered):
    """A service that checks users."""

    plural: ClassVar[str] = "authenticationservices"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Type", "spec.type"),
        Column("Phase", "status.phase"),
        Column("Status", "status.message", priority=1),
        AGE,
    )
    selectable: ClassVar[tuple[str, ...]] = ("spec.type", "status.phase")
    immutable: ClassVar[tuple[str, ...]] = ("type",)
    api_versions: ClassVar[tuple[str, ...]] = (ADMIN_VERSION,)

    api_version: str = ADMIN_VERSION
    kind: Literal["AuthenticationService"] = Field(default="AuthenticationService")
    spec: AuthenticationServiceSpec
    status: AuthenticationServiceStatus = AuthenticationServiceStatus()

    def faults(self) -> list[Fault]:
        """Return settings that are for another type, or are missing."""
        spec = self.spec
        found = [
            Fault(f"spec.{name}", f"is for services of type {name}, not {spec.type}")
            for name in ("none", "standard", "external")
            if name != spec.type and getattr(spec, name) is not None
        ]
        if spec.type == "external" and spec.external is None:
            found.append(Fault("spec.external", "is required: host and port"))
        return found
