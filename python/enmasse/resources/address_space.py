"""AddressSpace: a tenant's isolated set of addresses and users."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from enmasse.base.errors import Fault
from enmasse.resources import connectors, endpoints
from enmasse.resources.auto_create import RULES_MAX, AutoCreate
from enmasse.resources.connectors import Connector, ConnectorStatus
from enmasse.resources.endpoints import ENDPOINTS_MAX, Endpoint, EndpointStatus
from enmasse.resources.infra_config import NetworkPolicy
from enmasse.resources.messaging_user import LAST_APPLIED
from enmasse.resources.model import AGE, Column, Declared, Metadata, Model, Status, label

TYPES = ("standard", "brokered")
"""All types."""

ADDRESS_TYPES = {
    "standard": ("anycast", "multicast", "queue", "topic", "subscription", "deadletter"),
    "brokered": ("queue", "topic", "subscription", "deadletter"),
}
"""Address types of each space type."""

Authentication = Literal["none", "standard", "external", "keycloak"]

BUILT_IN: dict[str, Authentication] = {
    "none": "none",
    "none-authservice": "none",
    "standard": "standard",
    "standard-authservice": "standard",
}
"""Built-in authentication services, and their types."""


def known_type(value: str) -> str:
    """Validate the name of an address space type."""
    if value not in TYPES:
        there = " and ".join(TYPES)
        raise ValueError(f"{value!r} is not an address space type; types: {there}")
    return value


class AddressSpaceMetadata(Metadata):
    """Metadata of an address space."""

    name: Annotated[str, AfterValidator(label)]
    """Name of the space: one part, without dots."""


class SecretReference(Model):
    """A Secret in the namespace of the space."""

    name: str | None = None


class Overrides(Model):
    """Overrides of an external service for one space, if the service allows them."""

    host: str | None = None
    port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = None
    realm: str | None = None
    """Host name that the service receives for the space in SASL."""

    ca_cert_secret: SecretReference | None = None
    client_cert_secret: SecretReference | None = None


class AuthenticationServiceChoice(Model):
    """The authentication service of a space."""

    name: str | None = None
    """Name of an AuthenticationService; `none` and `standard` are built in."""

    type: Literal["none", "standard", "external"] | None = None
    """`none` admits every client, `standard` requires a user of the space, `external` requires the
    name of a service of that type.
    """

    overrides: Overrides | None = None
    """Overrides of an external service for this space."""

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if self.name and self.type and BUILT_IN.get(self.name, self.type) != self.type:
            raise ValueError(
                f"service {self.name!r} is not of type {self.type!r}; remove one of them"
            )
        if self.type == "external" and not self.name:
            raise ValueError(
                "type external needs the name of an AuthenticationService of that type"
            )
        return self


class AddressSpaceSpec(Model):
    """Specification of an address space. `type` cannot change."""

    type: Annotated[str, AfterValidator(known_type)]
    """Type of space: standard, or brokered (queue, topic, subscription and deadletter only)."""

    plan: str | None = None
    """Name of a plan of that type. Default: the first one."""

    authentication_service: AuthenticationServiceChoice | None = None
    """The authentication service. Default: `standard` if other machines can reach the platform;
    otherwise, or with `--insecure`, none until the space has a user, then `standard`.
    """

    endpoints: Annotated[tuple[Endpoint, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """How clients reach the space. `messaging` and `messaging-wss` are built in."""

    network_policy: NetworkPolicy | None = None
    """Network policy that overrides the infra config's. Stored but not implemented."""

    connectors: Annotated[tuple[Connector, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """Remote servers whose addresses appear in the space. Stored but not implemented."""

    auto_create: Annotated[tuple[AutoCreate, ...], Field(max_length=RULES_MAX)] = ()
    """Rules for addresses that links create, if the user has the right. Absent: none."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The distinct host names of its endpoints."""
        return tuple(dict.fromkeys(host for one in self.endpoints for host in one.hosts))


PERIODS_KEPT = 13
"""Maximum recorded periods: the current one and those before it."""


class Usage(Model):
    """Usage of an address space in one period."""

    period: str
    """A month, such as `2026-11`, or a day, such as `2026-11-30`, in UTC."""

    messages_in: int = 0
    """Messages from clients."""

    bytes_in: int = 0
    """Their bytes."""

    messages_out: int = 0
    """Deliveries to clients."""

    bytes_out: int = 0
    """Their bytes."""

    connections: int = 0
    """Maximum concurrent connections, sampled every second."""

    stored_bytes: int = 0
    """Maximum stored bytes, sampled every minute."""


class AddressSpaceStatus(Status):
    """Observed state of an address space."""

    ca_cert: str | None = None
    """CAs to trust for the space, base64 of PEM; the signing one first."""

    endpoint_statuses: tuple[EndpointStatus, ...] | None = None
    """Hosts and ports of its endpoints."""

    connectors: tuple[ConnectorStatus, ...] | None = None
    """Observed state of its connectors."""

    usage: tuple[Usage, ...] | None = None
    """Usage in the current period and the last 12 periods with traffic, newest first. Updated every
    minute.
    """


class AddressSpace(Declared):
    """A declared address space."""

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
    write_only: ClassVar[tuple[str, ...]] = (
        "spec.endpoints[].cert.tlsKey",
        "spec.connectors[].tls.clientKey.value",
        "spec.connectors[].credentials.password.value",
    )

    kind: Literal["AddressSpace"] = Field(default="AddressSpace")
    metadata: AddressSpaceMetadata
    spec: AddressSpaceSpec
    status: AddressSpaceStatus = AddressSpaceStatus()

    @property
    def is_complete(self) -> bool:
        """Whether it names a plan."""
        return self.spec.plan is not None

    @property
    def service_name(self) -> str | None:
        """Name of its authentication service."""
        service = self.spec.authentication_service
        return service.name if service else None

    @property
    def service_type(self) -> str | None:
        """Type of its authentication service."""
        service = self.spec.authentication_service
        return service.type if service else None

    @property
    def own_realm(self) -> str:
        """Unique name of its user set in an external service, as in the original."""
        return f"{self.metadata.namespace}-{self.metadata.name}"

    @property
    def overrides(self) -> Overrides | None:
        """Its overrides of the authentication service."""
        service = self.spec.authentication_service
        return service.overrides if service else None

    def faults(self) -> list[Fault]:
        """Return errors of combinations of endpoints and connectors."""
        return [
            *endpoints.faults_of(self.spec.endpoints),
            *connectors.faults_of(self.spec.connectors, self.spec.type),
            *self._auto_create_faults(),
        ]

    def _auto_create_faults(self) -> list[Fault]:
        allowed = ADDRESS_TYPES[self.spec.type]
        return [
            Fault(
                f"spec.autoCreate[{at}].type",
                f"{rule.type!r} is not an address type of a space of type {self.spec.type!r}",
            )
            for at, rule in enumerate(self.spec.auto_create)
            if rule.type is not None and rule.type not in allowed
        ]

    def document(self) -> dict[str, Any]:
        """Return plain data without empty lists of optional fields."""
        data = super().document()
        for name in ("endpoints", "connectors", "autoCreate"):
            if not data["spec"][name]:
                del data["spec"][name]
        return data

    def public(self) -> Self:
        """Return the space without private keys and passwords."""
        spec = self.spec
        shown = spec.model_copy(
            update={
                "endpoints": tuple(_without_key(one) for one in spec.endpoints),
                "connectors": tuple(_without_values(one) for one in spec.connectors),
            }
        )
        annotations = _without_secrets(self.metadata.annotations)
        return self.model_copy(update={"spec": shown}).with_metadata(annotations=annotations)

    def authentication(
        self,
        *,
        has_users: bool,
        services: Mapping[str, Authentication] = BUILT_IN,
        exposed: bool = False,
    ) -> Authentication:
        """Return who is admitted: `none` means everyone, `standard` the users of the space,
        otherwise users of an external service.

        `services` are the authentication services by name. If the service is missing, only users
        are admitted. `exposed`: other machines can reach a listener unintentionally.
        """
        service = self.spec.authentication_service or AuthenticationServiceChoice()
        if service.name:
            return services.get(service.name, "standard")
        return service.type or ("standard" if has_users or exposed else "none")


def _without_key(endpoint: Endpoint) -> Endpoint:
    if endpoint.cert is None or endpoint.cert.tls_key is None:
        return endpoint
    cert = endpoint.cert.model_copy(update={"tls_key": None})
    return endpoint.model_copy(update={"cert": cert})


def _without_values(connector: Connector) -> Connector:
    """Return a connector without its key and password."""
    update: dict[str, object] = {}
    for part, name in (("tls", "client_key"), ("credentials", "password")):
        own = getattr(connector, part)
        value = getattr(own, name) if own else None
        if value is not None and value.value is not None:
            kept = value.model_copy(update={"value": None})
            update[part] = own.model_copy(update={name: kept})
    return connector.model_copy(update=update) if update else connector


def _without_secrets(annotations: dict[str, str]) -> dict[str, str]:
    """Return annotations with a secret-free copy of kubectl's; a malformed copy is removed."""
    if LAST_APPLIED not in annotations:
        return annotations
    kept = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
    try:
        document = json.loads(annotations[LAST_APPLIED])
        for endpoint in document["spec"].get("endpoints") or ():
            (endpoint.get("cert") or {}).pop("tlsKey", None)
        for connector in document["spec"].get("connectors") or ():
            for part, name in (("tls", "clientKey"), ("credentials", "password")):
                ((connector.get(part) or {}).get(name) or {}).pop("value", None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return kept
    return kept | {LAST_APPLIED: json.dumps(document, separators=(",", ":")) + "\n"}
