"""Endpoints, network policy and connectors of an address space.

Every field of the original is stored, its rules hold, and no secret is shown.
"""

import base64
import json
from typing import Any

import pytest

from doubles import document
from enmasse.base.errors import Invalid
from enmasse.resources import AddressSpace, parse
from enmasse.resources.messaging_user import LAST_APPLIED

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
WHOLE: dict[str, Any] = {
    "type": "standard",
    "plan": "standard-medium",
    "authenticationService": {"name": "standard-authservice"},
    "endpoints": [
        {
            "name": "messaging",
            "service": "messaging",
            "cert": {"provider": "certBundle", "secretName": "my-cert", "tlsCert": PEM},
            "expose": {
                "type": "route",
                "annotations": {"team": "north"},
                "routeHost": "mq.example.com",
                "routeServicePort": "amqps",
                "routeTlsTermination": "passthrough",
            },
            "exports": [
                {"kind": "ConfigMap", "name": "messaging-config"},
                {"kind": "Secret", "name": "messaging-secret"},
                {"kind": "Service", "name": "messaging-service"},
            ],
        },
        {
            "name": "balanced",
            "service": "messaging",
            "cert": {"provider": "openshift"},
            "expose": {
                "type": "loadbalancer",
                "annotations": {"cloud": "yes"},
                "loadBalancerPorts": ["amqps", "amqp-wss"],
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
        },
        {"name": "console", "service": "console", "cert": {"provider": "wildcard"}},
        {"name": "mqtt", "service": "mqtt", "cert": {"provider": "selfsigned"}},
    ],
    "networkPolicy": {
        "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"team": "north"}}}]}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
    },
    "connectors": [
        {
            "name": "remote1",
            "endpointHosts": [{"host": "a.example.com", "port": 5671}, {"host": "b.example.com"}],
            "idleTimeout": 0,
            "maxFrameSize": 512,
            "role": "route-container",
            "tls": {
                "caCert": {"value": "a PEM text"},
                "clientCert": {"valueFromSecret": {"name": "client", "key": "c.crt"}},
                "clientKey": {"valueFromSecret": {"name": "client"}},
            },
            "credentials": {
                "username": {"value": "alice"},
                "password": {"valueFromSecret": {"name": "client", "key": "password"}},
            },
            "addresses": [
                {"name": "all", "pattern": "*"},
                {"name": "below", "pattern": "news/#"},
                {"name": "one", "pattern": "a/*/c"},
            ],
        }
    ],
}


def space(spec: dict[str, Any]) -> AddressSpace:
    parsed = parse(document("AddressSpace", "shop", spec))
    assert isinstance(parsed, AddressSpace)
    return parsed


def test_endpoints_and_connectors_of_the_original_round_trip() -> None:
    shown = space(WHOLE).document()["spec"]
    for endpoint in shown["endpoints"]:
        for name in ("exports", "annotations", "loadBalancerPorts", "loadBalancerSourceRanges"):
            for part in (endpoint, endpoint.get("expose", {})):
                if part.get(name) in ([], {}):
                    del part[name]
    assert shown == WHOLE
    assert parse(space(WHOLE).document(), stored=True).document() == space(WHOLE).document()


def test_space_without_endpoints_has_no_endpoints_field() -> None:
    assert space({"type": "standard"}).document()["spec"] == {"type": "standard"}


def changed(path: str, value: object) -> dict[str, Any]:
    """WHOLE with one field changed; the path consists of names and indices, joined by dots."""
    spec: dict[str, Any] = json.loads(json.dumps(WHOLE))
    *above, last = path.split(".")
    at: Any = spec
    for part in above:
        at = at[int(part)] if part.isdecimal() else at[part]
    at[last] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("endpoints.0.service", "kafka", "spec.endpoints[0].service", "messaging"),
        ("endpoints.0.cert.provider", "acme", "spec.endpoints[0].cert.provider", "certBundle"),
        ("endpoints.0.cert.tlsCert", "not base64", "spec.endpoints[0].cert.tlsCert", "base64"),
        ("endpoints.0.cert.provider", "selfsigned", "spec.endpoints[0].cert.tlsCert", "certBundle"),
        ("endpoints.0.expose.type", "ingress", "spec.endpoints[0].expose.type", "route"),
        ("endpoints.0.expose.routeServicePort", None, "routeServicePort", "required"),
        ("endpoints.0.expose.routeHost", "10.0.0.1", "routeHost", "not a host name"),
        ("endpoints.0.expose.routeHost", "shop", "routeHost", "with a dot"),
        ("endpoints.1.expose.loadBalancerPorts", [], "loadBalancerPorts", "required"),
        ("endpoints.1.name", "messaging", "spec.endpoints[1].name", "another endpoint"),
        ("endpoints.0.exports.0.kind", "Route", "exports[0].kind", "ConfigMap"),
        (
            "endpoints.1.exports",
            [{"kind": "Secret", "name": "messaging-secret"}],
            "name",
            "another",
        ),
    ],
)
def test_invalid_endpoint_is_rejected_naming_the_field(
    path: str, value: object, field: str, words: str
) -> None:
    check_refused(path, value, field, words)


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("type", "brokered", "spec.connectors[0]", "standard only"),
        ("connectors.0.name", "not-good", "connectors[0].name", "invalid connector name"),
        ("connectors.0.addresses.0.pattern", "a//b", "pattern", "invalid address rule"),
        ("connectors.0.addresses.0.pattern", "a#", "pattern", "invalid address rule"),
        ("connectors.0.endpointHosts", [], "endpointHosts", "empty"),
        ("connectors.0.maxFrameSize", 511, "maxFrameSize", "512"),
        ("connectors.0.role", "interior", "role", "edge"),
        ("connectors.0.tls.clientKey", None, "connectors[0].tls", "both"),
    ],
)
def test_T_EP_3_invalid_connector_is_rejected_in_words_of_the_original(
    path: str, value: object, field: str, words: str
) -> None:
    check_refused(path, value, field, words)


def check_refused(path: str, value: object, field: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        space(changed(path, value))
    [fault] = [one for one in refused.value.faults if field in one.field]
    assert words in fault.message


def test_public_space_shows_no_keys_or_passwords() -> None:
    key = base64.b64encode(b"the private key").decode()
    spec = changed("endpoints.0.cert.tlsKey", key)
    spec["connectors"][0]["tls"]["clientKey"] = {"value": "the client's key"}
    spec["connectors"][0]["credentials"]["password"] = {"value": "wonderland"}
    applied = json.dumps({"spec": spec})
    whole = space(spec).with_metadata(annotations={LAST_APPLIED: applied, "team": "north"})
    shown = json.dumps(whole.public().document())
    for secret in (key, "the client's key", "wonderland"):
        assert secret not in shown and secret not in repr(whole.spec)
    assert "alice" in shown and PEM in whole.public().metadata.annotations[LAST_APPLIED]
    unreadable = whole.with_metadata(annotations={LAST_APPLIED: key, "team": "north"})
    assert unreadable.public().metadata.annotations == {"team": "north"}
