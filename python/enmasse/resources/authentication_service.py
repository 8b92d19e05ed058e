"""AuthenticationService: who can check the users of address spaces.

`none` lets everybody in; `standard` checks MessagingUsers, in this process, and tokens of an issuer
if it names one; `keycloak` asks a Keycloak, `external` any server of the documented handshake. What
is about pods and their database is kept as it is and counts on a cluster only.
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
    Status,
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


Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"
]
"""How tokens may be signed: by a private key, of which only the public half is known here."""

TRUSTED_ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "Ed25519")
"""Those taken where nothing is said."""


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.fragment:
        raise ValueError(f"{value!r} is not the URL of a server: write https://HOST[:PORT]/PATH")
    if parts.username or parts.password:
        raise ValueError("holds a user name or password, which have no place in it: leave them out")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError(f"{value!r} can be read and changed on its way: use https")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""Where a server is asked over HTTP: `https`, or `http` on this machine."""


class Oidc(Model):
    """An issuer of tokens, JWTs that it signs (OpenID Connect, RFC 9068)."""

    issuer: Address
    """What a token has to name as `iss`."""

    audience: str | None = None
    """What a token has to name in `aud`. Left out: the full name of the space, NAME.NAMESPACE."""

    jwks_uri: Address | None = None
    """Where its keys are. Left out: where `.well-known/openid-configuration` of the issuer says."""

    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` its certificate is verified against. Left out: the system's."""

    user_claim: str = "sub"
    """Claim that is the name of the user."""

    groups_claim: str = "groups"
    """Claim that lists groups, such as `send_orders`; dots lead into objects."""

    algorithms: tuple[Algorithm, ...] = Field(default=TRUSTED_ALGORITHMS, min_length=1)
    """How tokens may be signed."""


class KeycloakService(Model):
    """Settings of a Keycloak: a realm for each space, unless the service names one for all."""

    url: Address
    """Where it is, as its clients know it: the issuer of a realm is URL/realms/REALM."""

    client_id: str = "enmasse"
    """Client that asks about user names and passwords, which needs direct access grants."""

    client_secret: SecretReference | None = None
    """Secret whose `client-secret` that client is known by. Left out: the client is public."""

    audience: str | None = None
    """What a token has to name in `aud`. Left out: any; the realm is that of the space."""

    credentials_secret: SecretReference | None = None
    """Secret with `admin.username` and `admin.password` of an administrator in its realm `master`,
    who makes the realm of each space and removes it with the space. Left out: realms are yours."""

    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` its certificate is verified against. Left out: the system's."""


class StandardService(Model):
    """Settings of a service that has users."""

    oidc: Oidc | None = None
    """Whose tokens let in, too."""

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
    """A server elsewhere that speaks SASL over AMQP and answers with what a user may do."""

    host: str
    port: Port
    ca_cert_secret: SecretReference | None = None
    """Secret whose `ca.crt` its certificate is verified against. Left out: the system's."""

    client_cert_secret: SecretReference | None = None
    """Secret whose `tls.crt` and `tls.key` are shown to it."""

    allow_override: bool | None = None
    """Whether a space may name another server, realm or secrets."""

    recheck_seconds: Annotated[int, Field(strict=True, ge=5, le=86_400)] = 300
    """For how long an answer is good: before that the service is asked again about each connection,
    with what was shown at the login, and who is refused or has other rights by then loses them."""


class AuthenticationServiceSpec(Model):
    """What a service is."""

    type: Literal["none", "standard", "external", "keycloak"]
    """`none` lets everybody in, `standard` has users, `keycloak` and `external` ask others."""

    realm: str | None = None
    """One set of users for all spaces, of a service that asks others."""

    none: NoneService | None = None
    """Settings of a service of type none."""

    standard: StandardService | None = None
    """Settings of a service of type standard."""

    external: ExternalService | None = None
    """Settings of a service of type external."""

    keycloak: KeycloakService | None = None
    """Settings of a service of type keycloak."""


class AuthenticationServiceStatus(ToldStatus):
    """Whether a service can be used."""

    host: str | None = None
    port: int | None = None
    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None


class AuthenticationService(Administered):
    """A service that checks users."""

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
        """Return the resource with another status, which says where an external service is."""
        told = super().with_status(status)
        external = self.spec.external
        if external is None:
            return told
        place = {
            "host": external.host,
            "port": external.port,
            "ca_cert_secret": external.ca_cert_secret,
            "client_cert_secret": external.client_cert_secret,
        }
        return told.model_copy(update={"status": told.status.model_copy(update=place)})

    @property
    def asks_others(self) -> bool:
        """Whether a server elsewhere is asked about logins or keys."""
        standard = self.spec.standard
        has_issuer = standard is not None and standard.oidc is not None
        return self.spec.type in ("keycloak", "external") or has_issuer

    @property
    def keeps_realms(self) -> bool:
        """Whether the realm of each space is made and removed with the space."""
        keycloak = self.spec.keycloak
        return keycloak is not None and bool(keycloak.credentials_secret) and not self.spec.realm

    def faults(self) -> list[Fault]:
        """Return settings that are for another type, or are missing."""
        spec = self.spec
        found = [
            Fault(f"spec.{name}", f"is for services of type {name}, not {spec.type}")
            for name in ("none", "standard", "external", "keycloak")
            if name != spec.type and getattr(spec, name) is not None
        ]
        if spec.type == "external" and spec.external is None:
            found.append(Fault("spec.external", "is required: host and port"))
        if spec.type == "keycloak" and spec.keycloak is None:
            found.append(Fault("spec.keycloak", "is required: url"))
        name = self.metadata.name
        if (meant := BUILT_IN.get(name, spec.type)) != spec.type:
            message = (
                f"spaces that name {name!r} mean a service of type {meant}; choose another name"
            )
            found.append(Fault("metadata.name", message))
        return found
