"""Access to an address space: endpoints, their certificates, and their exports.

The fields and rules are those of the original. Cluster features (routes, load balancers, OpenShift
certificates) are stored unchanged, and a condition of the space reports that they are not served.
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
"""Issuer of a certificate: the operator for all spaces (`wildcard`), the tenant (`certBundle`),
the cluster (`openshift`), or the CA of the space (`selfsigned`)."""

ENDPOINTS_MAX = 32
"""Maximum endpoints of one space, and exports of one endpoint."""

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
    """Validate a PEM text in base64; the error message does not repeat it."""
    try:
        base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        raise ValueError("must be base64 of PEM, as in a Secret") from None
    return value


Pem = Annotated[str, AfterValidator(_encoded)]


class EndpointCertificate(Model):
    """The certificate of an endpoint."""

    provider: Provider | None = None
    """Issuer: `selfsigned` is the CA of the space, `certBundle` the tenant, `wildcard` the
    operator. If it is unusable, a condition of the space says why, and the CA of the space signs.
    Default: the operator's own certificate if it contains the host, else `selfsigned`."""

    secret_name: Annotated[str, AfterValidator(dotted_name)] | None = None
    """Secret in the namespace of the space with `tls.crt` and `tls.key` of `certBundle`. Default:
    SPACE-ENDPOINT-cert."""

    tls_key: Pem | None = Field(default=None, repr=False)
    """Private key for `certBundle`, base64 of PEM. Write-only: it is moved into the Secret."""

    tls_cert: Pem | None = None
    """Certificate for `certBundle` with its chain, base64 of PEM. It is moved into the Secret."""


class Expose(Model):
    """Access to an endpoint from outside a cluster."""

    type: Literal["route", "loadbalancer"]
    """An OpenShift route or a load balancer."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the route or the service."""

    route_host: Annotated[str, AfterValidator(_host)] | None = None
    """Host name for clients. The space accepts it and its certificate contains it; DNS must resolve
    it to the platform."""

    route_service_port: Literal["amqps", "https", "secure-mqtt"] | None = None
    """Target port of a route. Required for routes."""

    route_tls_termination: Literal["passthrough", "reencrypt"] | None = None
    """Where TLS ends: always at the node (`passthrough`)."""

    load_balancer_ports: tuple[str, ...] = ()
    """Names of the ports of a load balancer. Required for load balancers."""

    load_balancer_source_ranges: tuple[str, ...] = ()
    """Allowed source networks of a load balancer."""


class Export(Model):
    """An object with the client settings of an endpoint, in the namespace of the space."""

    kind: Literal["Secret", "ConfigMap", "Service"]
    """Kind of the object."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name of the object."""


class Endpoint(Model):
    """An endpoint of a space."""

    name: Annotated[str, AfterValidator(dotted_name)]
    """Name, unique in the space."""

    service: Literal["messaging", "mqtt", "console"]
    """The service of the endpoint: messaging and mqtt are served."""

    cert: EndpointCertificate | None = None
    """Its certificate."""

    expose: Expose | None = None
    """Access from outside a cluster."""

    exports: Annotated[tuple[Export, ...], Field(max_length=ENDPOINTS_MAX)] = ()
    """Objects with its host, ports and CA."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Its own host names."""
        return (self.expose.route_host,) if self.expose and self.expose.route_host else ()


class NamedPort(Model):
    """One port of an endpoint."""

    name: str
    port: int


class EndpointStatus(Model):
    """Address of an endpoint."""

    name: str
    cert: str | None = None
    """The tenant's certificate if it is used, otherwise the CAs to trust; base64 of PEM."""

    service_host: str | None = None
    """Host of the platform's listeners."""

    service_ports: tuple[NamedPort, ...] = ()
    external_host: str | None = None
    """Host name for external clients, if it has one."""

    external_ports: tuple[NamedPort, ...] = ()


def faults_of(endpoints: Iterable[Endpoint]) -> Iterable[Fault]:
    """Yield errors of the endpoints of a space and of their combinations."""
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
