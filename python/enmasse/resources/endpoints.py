"""How clients reach an address space: endpoints, their certificates, and what of them is exported.

The fields and rules are those of the original. What needs a cluster (routes, load balancers, the
certificates of OpenShift) is kept as it is, and a condition of the space says that it is not done.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources.model import Model, dotted_name

Provider = Literal["wildcard", "certBundle", "openshift", "selfsigned"]
"""Who gives a certificate: the operator for all spaces (`wildcard`), the tenant (`certBundle`),
the cluster (`openshift`), or the authority of the space (`selfsigned`)."""

ENDPOINTS_MAX = 32
"""Endpoints of one space, and exports of one endpoint."""

_HOST = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
HOST_LENGTH_MAX = 253


def _host(value: str) -> str:
    text = value.lower()
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if len(text) <= HOST_LENGTH_MAX and _HOST.fullmatch(text):
            return text
    raise ValueError(
        f"{value!r} is not a host name: write a DNS name with a dot, not an IP address"
    )


def _encoded(value: str) -> str:
    """Check a PEM text in base64; what it is stays out of the message."""
    try:
        base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("must be base64 of PEM, as in a Secret") from None
    return value


Pem = Annotated[str, AfterValidator(_encoded)]


class EndpointCertificate(Model):
    """The certificate of an endpoint."""

    provider: Provider | None = None
    """Who gives it: `selfsigned` is the space's own authority, `certBundle` the tenant, `wildcard`
    the operator. What cannot be shown is told by a condition of the space, and the space's own is
    shown. Left out: the operator's if it is their own and names the host, else `selfsigned`."""

    secret_name: Annotated[str, AfterValidator(dotted_name)] | None = None
    """Secret in the namespace of the space that has the `tls.crt` and `tls.key` of `certBundle`.
    Left out: SPACE-ENDPOINT-cert."""

    tls_key: Pem | None = Field(default=None, repr=False)
    """Private key for `certBundle`, base64 of PEM. Write-only: it goes into the Secret."""

    tls_cert: Pem | None = None
    """Certificate for `certBundle`, base64 of PEM, with its chain behind it. The Secret has it."""


class Expose(Model):
    """How an endpoint is reached from outside a cluster."""

    type: Literal["route", "loadbalancer"]
    """Through a route of OpenShift or a load balancer."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Of the route or the service."""

    route_host: Annotated[str, AfterValidator(_host)] | None = None
    """Host name by which clients come. The space answers to it and its certificate names it; a name
    server has to lead it here."""

    route_service_port: Literal["amqps", "https", "secure-mqtt"] | None = None
    """What a route leads to. Required for routes."""

    route_tls_termination: Literal["passthrough", "reencrypt"] | None = None
    """Where TLS ends. Here it is always the node: `passthrough`."""

    load_balancer_ports: tuple[str, ...] = ()
    """Names of the ports of a load balancer. Required for load balancers."""

    load_balancer_source_ranges: tuple[str, ...] = ()
    """Networks that may come through a load balancer."""


class Export(Model):
    """Where what a client must know of an endpoint is written, in the namespace of the space."""

    kind: Literal["Secret", "ConfigMap", "Service"]
    """What is written."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name of it."""


class Endpoint(Model):
    """One way to a space."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name, unique in the space."""

    service: Literal["messaging", "mqtt", "console"]
    """What is reached. Only messaging is served for each space."""

    cert: EndpointCertificate | None = None
    """Its certificate."""

    expose: Expose | None = None
    """How it is reached from outside a cluster."""

    exports: Annotated[tuple[Export, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """Where its host, ports and CA are written."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names of its own."""
        return (self.expose.route_host,) if self.expose and self.expose.route_host else ()


class NamedPort(Model):
    """One port of an endpoint."""

    name: str
    port: int


class EndpointStatus(Model):
    """Where an endpoint is."""

    name: str
    cert: str | None = None
    """The certificate that the tenant has brought, if that is served, else the authorities to
    trust; base64 of PEM."""

    service_host: str | None = None
    """Host on which the platform listens."""

    service_ports: tuple[NamedPort, ...] = ()
    external_host: str | None = None
    """Host name for clients elsewhere, if it has one."""

    external_ports: tuple[NamedPort, ...] = ()


def faults_of(endpoints: Iterable[Endpoint]) -> Iterable[Fault]:
    """Yield what is wrong with the endpoints of a space, and with fields that go together."""
    names: set[str] = set()
    exported: set[tuple[str, str]] = set()
    for place, endpoint in enumerate(endpoints):
        path = f"spec.endpoints[{place}]"
        if endpoint.name in names:
            yield Fault(
                f"{path}.name",
                f"{endpoint.name!r} is already used by another endpoint; choose another",
            )
        names.add(endpoint.name)
        if endpoint.cert is not None:
            yield from _certificate_faults(f"{path}.cert", endpoint.cert)
        if endpoint.expose is not None:
            yield from _expose_faults(f"{path}.expose", endpoint.expose)
        for index, export in enumerate(endpoint.exports):
            if (export.kind, export.name) in exported:
                message = (
                    f"another export writes {export.kind} {export.name!r}; choose another name"
                )
                yield Fault(f"{path}.exports[{index}].name", message)
            exported.add((export.kind, export.name))


def _certificate_faults(path: str, cert: EndpointCertificate) -> Iterable[Fault]:
    if cert.provider == "certBundle":
        return
    for name, value in (("tlsKey", cert.tls_key), ("tlsCert", cert.tls_cert)):
        if value is not None:
            yield Fault(f"{path}.{name}", "is supported by provider certBundle only; remove it")


def _expose_faults(path: str, expose: Expose) -> Iterable[Fault]:
    if expose.type == "route" and expose.route_service_port is None:
        yield Fault(f"{path}.routeServicePort", "is required for a route: amqps or https")
    if expose.type == "loadbalancer":
        if not expose.load_balancer_ports:
            yield Fault(f"{path}.loadBalancerPorts", "is required for a load balancer: [amqps]")
        if expose.route_host is not None:
            yield Fault(f"{path}.routeHost", "is supported by routes only; remove it")
