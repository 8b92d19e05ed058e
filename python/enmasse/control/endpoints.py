"""Status of an address space: endpoints, certificates, connectors. Pure.

Conditions report the parts of the spec that are not implemented.
"""

import base64
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from enmasse.base.hosts import is_loopback
from enmasse.control.certificate_choice import Choice
from enmasse.resources import AddressSpace
from enmasse.resources.address_space import AddressSpaceStatus
from enmasse.resources.conditions import stated, without
from enmasse.resources.connectors import Connector, ConnectorStatus, ConnectorTls, Value
from enmasse.resources.endpoints import Endpoint, EndpointStatus, NamedPort

CERTIFICATE, EXPOSED, EXPORTED = "CertificateProvided", "EndpointsExposed", "Exported"
NETWORK_POLICY, CONNECTORS = "NetworkPolicyEnforced", "ConnectorsReady"

PORTS = {"amqps": "amqps", "amqp": "amqp", "amqp-wss": "wss", "amqp-ws": "ws"}
"""Ports of the service `messaging`, with their listeners."""

MQTT_PORTS = {"secure-mqtt": "mqtts", "mqtt": "mqtt"}
"""Ports of the service `mqtt`, with their listeners."""

_ROUTED = {"amqps": "amqps", "https": "wss", "secure-mqtt": "mqtts"}
"""Target ports of a route, with their listeners."""

DEFAULTS = (
    Endpoint(name="messaging", service="messaging"),
    Endpoint(name="messaging-wss", service="messaging"),
)
"""Endpoints of a space that declares none of its own for AMQP or WebSocket."""


@dataclass(frozen=True, slots=True)
class PlatformListeners:
    """The listeners of the platform."""

    host: str
    """Host name or IP address for clients."""

    ports: Mapping[str, int] = field(default_factory=dict)
    """Of the enabled listeners."""


class ConditionUpdate(NamedTuple):
    """One condition."""

    kind: str
    holds: bool
    reason: str
    message: str = ""


def with_endpoints(
    space: AddressSpace,
    place: PlatformListeners | None,
    shown: Choice | None,
    export_problem: str | None,
    now: datetime,
) -> AddressSpace:
    """Return a space whose status has its endpoints, certificates and unimplemented parts."""
    status = space.status
    condition = [one for one in _conditions(space, place, shown, export_problem) if one is not None]
    # Each condition is removed first, so that one that no longer applies does not stay.
    for kind in (CERTIFICATE, EXPOSED, EXPORTED, NETWORK_POLICY, CONNECTORS):
        conditions = without(status.conditions, kind)
        for one in condition:
            if one.kind == kind:
                conditions = stated(
                    status,
                    kind,
                    holds=one.holds,
                    reason=one.reason,
                    message=one.message,
                    generation=space.metadata.generation,
                    now=now,
                )
        status = status.model_copy(update={"conditions": conditions})
    update: dict[str, object] = {
        "connectors": tuple(map(_connector_status, space.spec.connectors)) or None,
    }
    if place is not None:
        update["endpoint_statuses"] = endpoint_statuses(space, place, shown)
    if shown is not None:
        update["ca_cert"] = _encoded(shown.trusted) if shown.trusted else None
    status = status.model_copy(update=update)
    assert isinstance(status, AddressSpaceStatus)
    return space.with_status(status)


def endpoints_of(space: AddressSpace) -> list[Endpoint]:
    """Return the served endpoints of a space: the declared ones, and default ones of the service
    `messaging` that none of them replaces.
    """
    served = [one for one in space.spec.endpoints if one.service in ("messaging", "mqtt")]
    declared = [one for one in served if one.service == "messaging"]
    by_socket = [one for one in declared if one.expose and _leads_to_socket(one)]
    covered = {
        "messaging": len(declared) > len(by_socket),
        "messaging-wss": bool(by_socket),
    }
    names = {one.name for one in space.spec.endpoints}
    added = [one for one in DEFAULTS if not covered[one.name] and one.name not in names]
    return [*served, *added]


def _leads_to_socket(endpoint: Endpoint) -> bool:
    expose = endpoint.expose
    return expose is not None and (
        expose.route_service_port == "https" or tuple(expose.load_balancer_ports) == ("amqp-wss",)
    )


def endpoint_statuses(
    space: AddressSpace, place: PlatformListeners, shown: Choice | None
) -> tuple[EndpointStatus, ...]:
    """Return hosts, ports and certificates of the endpoints of a space."""
    trusted, chains = (shown.trusted, shown.chains) if shown else ("", {})
    found = []
    for endpoint in endpoints_of(space):
        host, ports = _outside(endpoint, place)
        cert = chains.get(endpoint.name, trusted)
        found.append(
            EndpointStatus(
                name=endpoint.name,
                cert=_encoded(cert) if cert else None,
                service_host=place.host,
                service_ports=tuple(
                    NamedPort(name=name, port=place.ports[kind])
                    for name, kind in _ports_of(endpoint).items()
                    if kind in place.ports
                ),
                external_host=host,
                external_ports=ports,
            )
        )
    return tuple(found)


def _ports_of(endpoint: Endpoint) -> Mapping[str, str]:
    return MQTT_PORTS if endpoint.service == "mqtt" else PORTS


def _outside(
    endpoint: Endpoint, place: PlatformListeners
) -> tuple[str | None, tuple[NamedPort, ...]]:
    """Return host name and ports for external clients, if any."""
    expose = endpoint.expose
    if expose is None:
        return None, ()
    if expose.type == "route":
        name = expose.route_service_port or ""
        kind = _ROUTED.get(name, "")
        if expose.route_host is None or kind not in place.ports:
            return None, ()
        return expose.route_host, (NamedPort(name=name, port=place.ports[kind]),)
    if is_loopback(place.host):
        return None, ()
    known = _ports_of(endpoint)
    names = (name for name in expose.load_balancer_ports if known.get(name) in place.ports)
    ports = tuple(NamedPort(name=name, port=place.ports[known[name]]) for name in names)
    return (place.host, ports) if ports else (None, ())


def is_host_name(host: str) -> bool:
    """Whether a host is a DNS name, not an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _conditions(
    space: AddressSpace,
    place: PlatformListeners | None,
    shown: Choice | None,
    export_problem: str | None,
) -> Iterator[ConditionUpdate | None]:
    yield _certificate_condition(shown) if shown else None
    yield _exposed_condition(space, place) if place else None
    if any(one.exports for one in space.spec.endpoints):
        problem = export_problem
        reason = "NotAllWritten" if problem else "Written"
        yield ConditionUpdate(EXPORTED, not problem, reason, problem or "")
    if space.spec.network_policy is not None:
        yield ConditionUpdate(
            NETWORK_POLICY,
            False,
            "NoPods",
            "network policies are stored but not implemented on a single node; use a firewall",
        )
    if space.spec.connectors:
        message = "connectors are stored but not implemented"
        yield ConditionUpdate(CONNECTORS, False, "NotServed", message)


def _certificate_condition(shown: Choice) -> ConditionUpdate:
    if shown.problem is not None:
        return ConditionUpdate(CERTIFICATE, False, *shown.problem)
    return ConditionUpdate(CERTIFICATE, True, "Served", shown.message)


def _exposed_condition(space: AddressSpace, place: PlatformListeners) -> ConditionUpdate | None:
    undone = []
    for endpoint in space.spec.endpoints:
        if endpoint.service == "console":
            undone.append(f"{endpoint.name}: service {endpoint.service} is not available")
            continue
        expose = endpoint.expose
        if expose is None:
            continue
        if expose.load_balancer_source_ranges:
            undone.append(
                f"{endpoint.name}: loadBalancerSourceRanges are stored but not"
                " implemented; use a firewall"
            )
        # With a host, clients reach it: only what was requested and is missing is reported.
        if _outside(endpoint, place)[0] is not None:
            continue
        if expose.type == "route" and expose.route_host is None:
            undone.append(f"{endpoint.name}: host names are not generated; set routeHost")
        else:
            undone.append(f"{endpoint.name}: the platform does not listen there (--host, ports)")
    if undone:
        return ConditionUpdate(EXPOSED, False, "NotAllExposed", "; ".join(undone))
    if any(one.expose for one in space.spec.endpoints):
        message = "served by the node's listeners; create DNS records for the hosts"
        return ConditionUpdate(EXPOSED, True, "Exposed", message)
    return None


def _connector_status(connector: Connector) -> ConnectorStatus:
    tls, credentials = connector.tls or ConnectorTls(), connector.credentials
    wanted: dict[str, Value | None] = {
        "caCert": tls.ca_cert,
        "clientCert": tls.client_cert,
        "clientKey": tls.client_key,
        "username": credentials.username if credentials else None,
        "password": credentials.password if credentials else None,
    }
    missing = tuple(
        f"Unable to locate value or secret for {name}"
        for name, one in wanted.items()
        if one is not None and one.value is None and one.value_from_secret is None
    )
    return ConnectorStatus(
        name=connector.name, messages=("it is stored but not implemented", *missing)
    )


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()
