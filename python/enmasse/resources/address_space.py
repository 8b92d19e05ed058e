"""AddressSpace: a tenant's own set of addresses and users, which no other space can see."""

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

    type: Literal["none", "standard", "external"] | None = None
    """`none` lets everybody in, `standard` asks for a user of the space, `external` is for a named
    service of that type."""

    overrides: Overrides | None = None
    """What of an external service is another for this space."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.name and self.type and BUILT_IN.get(self.name, self.type) != self.type:
            raise ValueError(f"service {self.name!r} is not of type {self.type!r}; leave one out")
        if self.type == "external" and not self.name:
            raise ValueError(
                "type external needs the name of an AuthenticationService of that type"
            )
        return self


class AddressSpaceSpec(Model):
    """What an address space is. `type` cannot change later."""

    type: Annotated[str, AfterValidator(known_type)]
    """Kind of space: standard, or brokered (queue, topic, subscription and deadletter only)."""

    plan: str | None = None
    """Name of a plan of that type. Left out: the first of those."""

    authentication_service: AuthenticationServiceChoice | None = None
    """Who checks users. Left out: `standard` where other machines reach the platform; where they do
    not, or with `--insecure`, nobody while the space has no user, else `standard`."""

    endpoints: Annotated[tuple[Endpoint, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """How clients reach it. `messaging` and `messaging-wss` are there without being declared."""

    network_policy: NetworkPolicy | None = None
    """Who may reach the pods, in the place of the infra config's. There are no pods here."""

    connectors: Annotated[tuple[Connector, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """Servers elsewhere whose addresses it is to show."""

    auto_create: Annotated[tuple[AutoCreate, ...], Field(max_length=RULES_MAX)] = ()
    """Addresses that links have created, for users who may. Left out: none."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names that its endpoints have, each once."""
        return tuple(dict.fromkeys(host for one in self.endpoints for host in one.hosts))


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

    ca_cert: str | None = None
    """Authorities to trust for the space, base64 of PEM; the present one first."""

    endpoint_statuses: tuple[EndpointStatus, ...] | None = None
    """Where its endpoints are."""

    connectors: tuple[ConnectorStatus, ...] | None = None
    """Whether its connectors work."""

    usage: tuple[Usage, ...] | None = None
    """What it has come to in the present period and the 12 before it in which it was used, the
    present one first. Written every minute."""


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
        """Name of the authentication service it asks for."""
        service = self.spec.authentication_service
        return service.name if service else None

    @property
    def service_type(self) -> str | None:
        """Type of authentication service it asks for."""
        service = self.spec.authentication_service
        return service.type if service else None

    @property
    def own_realm(self) -> str:
        """Name of its set of users in a service elsewhere, as the original had it; no other space
        has that name."""
        return f"{self.metadata.namespace}-{self.metadata.name}"

    @property
    def overrides(self) -> Overrides | None:
        """What of its authentication service is another for it."""
        service = self.spec.authentication_service
        return service.overrides if service else None

    def faults(self) -> list[Fault]:
        """Return what is wrong with endpoints and connectors together."""
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
                f"{rule.type!r} is no type of address in a space of type {self.spec.type!r}",
            )
            for at, rule in enumerate(self.spec.auto_create)
            if rule.type is not None and rule.type not in allowed
        ]

    def document(self) -> dict[str, Any]:
        """Return plain data; lists that are empty and were not there from the first are left
        out."""
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
        """Return who may come in: `none` is everybody, `standard` the users of the space, else
        whom a service elsewhere lets in.

        `services` are the authentication services by name. A service that is not there lets in
        nobody but users. `exposed`: other machines can reach a listener and that is not meant.
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
    """Return a connector without the key and the password that stand in it."""
    update: dict[str, object] = {}
    for part, name in (("tls", "client_key"), ("credentials", "password")):
        own = getattr(connector, part)
        value = getattr(own, name) if own else None
        if value is not None and value.value is not None:
            kept = value.model_copy(update={"value": None})
            update[part] = own.model_copy(update={name: kept})
    return connector.model_copy(update=update) if update else connector


def _without_secrets(annotations: dict[str, str]) -> dict[str, str]:
    """Return annotations with keys and passwords taken out of kubectl's copy; a copy that cannot be
    read is left out."""
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
