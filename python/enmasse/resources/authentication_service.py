"""AuthenticationService: a source of users for address spaces.

`none` admits everyone; `standard` checks MessagingUsers in this process, and tokens of an issuer if
it names one; `keycloak` uses a Keycloak, `external` any server of the documented handshake.
Settings of pods and their database are stored without effect on a single node.
"""

from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.base.hosts import is_loopback
from enmasse.base.kinds import ADMIN_VERSION
from enmasse.resources.address_space import BUILT_IN
from enmasse.resources.model import (
    AGE,
    Administered,
    Column,
    Model,
    ReportedStatus,
    Status,
)

Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]


class SecretReference(Model):
    """A reference to a Secret."""

    name: str | None = None
    namespace: str | None = None


class Image(Model):
    """Settings of a container."""

    name: str | None = None
    pull_policy: str | None = None


class Amounts(Model):
    """CPU and memory."""

    cpu: str | None = None
    memory: str | None = None


class ResourceRequirements(Model):
    """Resource requests and limits of a container."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class NoneService(Model):
    """Settings of a service that admits everyone."""

    certificate_secret: SecretReference | None = None
    image: Image | None = None
    replicas: int | None = None
    resources: ResourceRequirements | None = None


class Storage(Model):
    """Storage of the users of a service."""

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


Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"
]
"""Signature algorithms, all asymmetric: only the public key is known here."""

TRUSTED_ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "Ed25519")
"""Default algorithms."""


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.fragment:
        raise ValueError(f"{value!r} is not the URL of a server: write https://HOST[:PORT]/PATH")
    if parts.username or parts.password:
        raise ValueError("must not contain a user name or password; remove them")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError(f"{value!r} is not encrypted; use https")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""URL of an HTTP server: `https`, or `http` on this machine."""


class Oidc(Model):
    """An issuer of signed JWTs (OpenID Connect, RFC 9068)."""

    issuer: Address
    """Required claim `iss` of a token."""

    audience: str | None = None
    """Required claim `aud` of a token. Default: the full name of the space, NAME.NAMESPACE."""

    jwks_uri: Address | None = None
    """URL of its keys. Default: from `.well-known/openid-configuration` of the issuer."""

    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` verifies its server certificate. Default: the system's CAs."""

    user_claim: str = "sub"
    """Claim with the user name."""

    groups_claim: str = "groups"
    """Claim with groups, such as `send_orders`; dots address nested objects."""

    algorithms: tuple[Algorithm, ...] = Field(default=TRUSTED_ALGORITHMS, min_length=1)
    """Accepted signature algorithms."""


class KeycloakService(Model):
    """Settings of a Keycloak: one realm per space, unless the service names one for all."""

    url: Address
    """Base URL as its clients know it: the issuer of a realm is URL/realms/REALM."""

    client_id: str = "enmasse"
    """Client for checking passwords; it needs direct access grants."""

    client_secret: SecretReference | None = None
    """Secret with the `client-secret` of that client. Default: a public client."""

    audience: str | None = None
    """Required claim `aud` of a token. Default: any; the realm determines the space."""

    credentials_secret: SecretReference | None = None
    """Secret with `admin.username` and `admin.password` of an administrator of the realm `master`;
    EnMasse then creates the realm of each space and removes it with the space. Default: realms are
    managed elsewhere.
    """

    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` verifies its server certificate. Default: the system's CAs."""


class StandardService(Model):
    """Settings of a service with MessagingUsers."""

    oidc: Oidc | None = None
    """Issuer whose tokens are accepted in addition."""

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
    """A remote server that speaks SASL over AMQP and returns the rights of a user."""

    host: str
    port: Port
    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` verifies its server certificate. Default: the system's CAs."""

    client_cert_secret: SecretReference | None = None
    """Secret with `tls.crt` and `tls.key` of our client certificate."""

    allow_override: bool | None = None
    """Whether a space may override server, realm or Secrets."""

    recheck_seconds: Annotated[int, Field(strict=True, ge=5, le=86_400)] = 300
    """Validity of an answer in seconds. Before it expires, EnMasse repeats the login of each
    connection with the same credentials and applies changed rights or a refusal.
    """


class AuthenticationServiceSpec(Model):
    """Specification of a service."""

    type: Literal["none", "standard", "external", "keycloak"]
    """`none` admits everyone, `standard` has MessagingUsers, `keycloak` and `external` use other
    servers.
    """

    realm: str | None = None
    """One set of users for all spaces, for services that use other servers."""

    none: NoneService | None = None
    """Settings of a service of type none."""

    standard: StandardService | None = None
    """Settings of a service of type standard."""

    external: ExternalService | None = None
    """Settings of a service of type external."""

    keycloak: KeycloakService | None = None
    """Settings of a service of type keycloak."""


class AuthenticationServiceStatus(ReportedStatus):
    """Observed state of a service."""

    host: str | None = None
    port: int | None = None
    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None


class AuthenticationService(Administered):
    """A source of users for address spaces."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("Type", "spec.type"),
        Column("Phase", "status.phase"),
        Column("Status", "status.message", priority=1),
        AGE,
    )
    selectable: ClassVar[tuple[str, ...]] = ("spec.type", "status.phase")
    immutable: ClassVar[tuple[str, ...]] = ("type",)

    api_version: str = ADMIN_VERSION
    kind: Literal["AuthenticationService"] = Field(default="AuthenticationService")
    spec: AuthenticationServiceSpec
    status: AuthenticationServiceStatus = AuthenticationServiceStatus()

    def with_status(self, status: Status) -> Self:
        """Return the resource with another status, with the location of an external service."""
        updated = super().with_status(status)
        external = self.spec.external
        if external is None:
            return updated
        place = {
            "host": external.host,
            "port": external.port,
            "ca_cert_secret": external.ca_cert_secret,
            "client_cert_secret": external.client_cert_secret,
        }
        return updated.model_copy(update={"status": updated.status.model_copy(update=place)})

    @property
    def uses_remote_server(self) -> bool:
        """Whether another server decides logins or provides keys."""
        standard = self.spec.standard
        has_issuer = standard is not None and standard.oidc is not None
        return self.spec.type in ("keycloak", "external") or has_issuer

    @property
    def keeps_realms(self) -> bool:
        """Whether EnMasse creates and removes the realms of spaces."""
        keycloak = self.spec.keycloak
        return keycloak is not None and bool(keycloak.credentials_secret) and not self.spec.realm

    def faults(self) -> list[Fault]:
        """Return settings that are missing or belong to another type."""
        spec = self.spec
        found = [
            Fault(f"spec.{name}", f"is supported by services of type {name} only, not {spec.type}")
            for name in ("none", "standard", "external", "keycloak")
            if name != spec.type and getattr(spec, name) is not None
        ]
        if spec.type == "external" and spec.external is None:
            found.append(Fault("spec.external", "is required: host and port"))
        if spec.type == "keycloak" and spec.keycloak is None:
            found.append(Fault("spec.keycloak", "is required: url"))
        name = self.metadata.name
        if (reserved_type := BUILT_IN.get(name, spec.type)) != spec.type:
            message = (
                f"{name!r} is reserved for a service of type {reserved_type}; choose another name"
            )
            found.append(Fault("metadata.name", message))
        return found
