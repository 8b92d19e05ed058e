"""Endpoints and exports of address spaces, with a fake engine."""

import base64

import pytest

from enmasse.base.errors import Conflict, Invalid
from enmasse.control.reconcilers.exports import EXPORTED_BY
from enmasse.resources import ConfigMap, Key, Secret, Service
from stepped_manager import SHOP, Platform, endpoint, route, secret, space, text


@pytest.fixture
def platform() -> Platform:
    return Platform()


async def test_space_status_lists_hosts_ports_and_ca(platform: Platform) -> None:
    await platform.apply(space(endpoints=[endpoint(expose=route())]), space("other"))
    status = platform.space().status
    ports = [
        {"name": "amqps", "port": 5671},
        {"name": "amqp", "port": 5672},
        {"name": "amqp-wss", "port": 8443},
    ]
    place = {"cert": status.ca_cert, "serviceHost": "mq.example.com", "servicePorts": ports}
    assert status.document()["endpointStatuses"] == [
        place
        | {
            "name": "messaging",
            "externalHost": "shop.example.com",
            "externalPorts": [{"name": "amqps", "port": 5671}],
        },
        place | {"name": "messaging-wss", "externalPorts": []},
    ]
    [planned] = [one for one in platform.engine.plan.spaces if one.names[0] == "shop"]
    assert planned.names == ("shop", "shop.example.com", "shop.default")


async def test_tenant_tls_key_is_moved_into_a_secret(
    platform: Platform,
) -> None:
    cert = {"provider": "certBundle", "tlsCert": text("a chain"), "tlsKey": text("a key")}
    manifest = space(endpoints=[endpoint(cert=cert)])
    await platform.apply(manifest)
    stored = platform.space().spec.endpoints[0].cert
    assert stored and (stored.tls_key, stored.secret_name) == (None, "shop-messaging-cert")
    kept = platform.secret("shop-messaging-cert")
    assert (kept.type, kept.text("tls.key")) == ("kubernetes.io/tls", "a key")
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotUsable")
    assert "not a PEM certificate" in said.message and "a key" not in said.message
    version = platform.store.version
    await platform.apply(manifest)
    assert platform.store.version == version, "applied twice, nothing changes"

    # A renewal is a write of the Secret; a later update of the space does not overwrite it.
    await platform.apply(secret("shop-messaging-cert", "another chain", "another key"))
    await platform.admission.replace(platform.space().with_metadata(labels={"a": "b"}))
    await platform.settle()
    assert platform.secret("shop-messaging-cert").text("tls.crt") == "another chain"


EXPORTS = [
    {"kind": "ConfigMap", "name": "where"},
    {"kind": "Secret", "name": "where"},
    {"kind": "Service", "name": "where"},
]


async def test_exports_contain_client_settings_and_are_deleted_with_the_space(
    platform: Platform,
) -> None:
    await platform.apply(space(endpoints=[endpoint(expose=route(), exports=EXPORTS)]))
    exported = {
        kind: platform.store.get(Key(kind, "default", "where"))
        for kind in ("ConfigMap", "Secret", "Service")
    }
    config, kept, service = exported["ConfigMap"], exported["Secret"], exported["Service"]
    assert isinstance(config, ConfigMap) and isinstance(kept, Secret)
    assert isinstance(service, Service)
    assert config.data == {
        "service.host": "mq.example.com",
        "service.port.amqps": "5671",
        "service.port.amqp": "5672",
        "service.port.amqp-wss": "8443",
        "service.name": "shop.default",
        "external.host": "shop.example.com",
        "external.port.amqps": "5671",
        "ca.crt": base64.b64decode(platform.space().status.ca_cert or "").decode(),
    }
    assert {name: kept.text(name) for name in kept.data} == config.data
    assert "PRIVATE" not in str(config) + str([kept.text(name) for name in kept.data])
    assert service.spec["type"] == "ExternalName"
    assert service.spec["externalName"] == "mq.example.com"
    uid = platform.space().metadata.uid
    assert [one.uid for one in config.metadata.owner_references] == [uid]
    said = platform.condition("Exported")
    assert said and said.status == "True"

    # A deleted or changed export is restored.
    await platform.admission.delete(Key("ConfigMap", "default", "where"))
    await platform.admission.replace(
        kept.model_copy(update={"data": {}}).with_metadata(resource_version=None)
    )
    await platform.settle()
    again = platform.store.get(Key("ConfigMap", "default", "where"))
    assert isinstance(again, ConfigMap) and again.data == config.data
    assert platform.secret("where").data == kept.data

    # An export that is no longer declared is deleted. Deleting the space deletes all exports, even
    # while the manager is stopped.
    await platform.apply(space(endpoints=[endpoint(expose=route(), exports=EXPORTS[:1])]))
    assert platform.store.get(Key("Secret", "default", "where")) is None
    assert "external.host" in config.data
    await platform.admission.delete(SHOP)
    platform.start()
    await platform.manager.catch_up()
    assert platform.store.get(Key("ConfigMap", "default", "where")) is None


async def test_export_does_not_overwrite_an_object_of_another_owner(platform: Platform) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "where"}}
    await platform.apply(theirs | {"data": {"a": "b"}})
    await platform.apply(space(endpoints=[endpoint(exports=EXPORTS[:1])]))
    kept = platform.store.get(Key("ConfigMap", "default", "where"))
    assert isinstance(kept, ConfigMap) and kept.data == {"a": "b"}
    said = platform.condition("Exported")
    assert said and said.status == "False" and "does not belong to this space" in said.message
    await platform.admission.delete(kept.key)
    await platform.settle()
    ours = platform.store.get(kept.key)
    assert ours is not None and ours.metadata.labels[EXPORTED_BY] == platform.space().metadata.uid
    said = platform.condition("Exported")
    assert said and said.status == "True"


async def test_unimplemented_settings_are_reported_and_the_space_is_ready(
    platform: Platform,
) -> None:
    await platform.apply(
        space(
            endpoints=[
                endpoint(expose=route(None)),
                {"name": "console", "service": "console"},
                endpoint(
                    "balanced",
                    expose={
                        "type": "loadbalancer",
                        "loadBalancerPorts": ["amqps"],
                        "loadBalancerSourceRanges": ["10.0.0.0/8"],
                    },
                ),
            ],
            networkPolicy={"ingress": []},
            connectors=[
                {
                    "name": "remote",
                    "endpointHosts": [{"host": "a.example.com"}],
                    "credentials": {"username": {"value": "alice"}, "password": {"value": "pst"}},
                    "tls": {"caCert": {}},
                }
            ],
        )
    )
    told = platform.space()
    assert told.status.is_ready
    for kind, words in (
        ("EndpointsExposed", "set routeHost"),
        ("EndpointsExposed", "service console is not available"),
        ("EndpointsExposed", "loadBalancerSourceRanges are stored but not implemented"),
        ("NetworkPolicyEnforced", "firewall"),
        ("ConnectorsReady", "not implemented"),
    ):
        said = platform.condition(kind)
        assert said and said.status == "False" and words in said.message
    assert told.spec.network_policy is not None
    [connector] = told.status.connectors or ()
    assert (connector.name, connector.is_ready) == ("remote", False)
    assert "Unable to locate value or secret for caCert" in connector.messages
    # The password is only in a Secret.
    assert platform.secret("shop-remote-connector").text("password") == "pst"
    credentials = told.spec.connectors[0].credentials
    assert credentials and credentials.password
    assert credentials.password.document() == {
        "valueFromSecret": {"name": "shop-remote-connector", "key": "password"}
    }
    balanced = {one.name: one for one in told.status.endpoint_statuses or ()}["balanced"]
    assert balanced.external_host == "mq.example.com"


@pytest.mark.parametrize("host", ["mq.example.com", "shop.example.com", "other.default"])
async def test_route_host_in_use_by_a_space_or_the_platform_conflicts(
    platform: Platform, host: str
) -> None:
    await platform.apply(space("other", endpoints=[endpoint(expose=route())]))
    with pytest.raises(Conflict, match="already belongs to") as refused:
        await platform.apply(space(endpoints=[endpoint(expose=route(host))]))
    assert refused.value.faults[0].field == "spec.endpoints[0].expose.routeHost"


async def test_space_whose_full_name_is_a_claimed_host_conflicts(
    platform: Platform,
) -> None:
    await platform.apply(space("own", endpoints=[endpoint(expose=route("own.default"))]))
    taken = space("fore", endpoints=[endpoint(expose=route("shop.victim"))])
    taken["metadata"]["namespace"] = "hidden"
    await platform.apply(taken)
    late = space("shop")
    late["metadata"]["namespace"] = "victim"
    with pytest.raises(Conflict, match=r"'shop.victim' already belongs to") as refused:
        await platform.apply(late)
    assert [one.field for one in refused.value.faults] == ["metadata.name"]
    assert "hidden" not in refused.value.message
    assert "fore" not in refused.value.message
    both = [space("a"), space("b", endpoints=[endpoint(expose=route("a.default"))])]
    with pytest.raises(Conflict, match=r"'a.default' already belongs to"):
        await platform.apply(*both)
    # An existing space may still be changed, and a released host is available again.
    await platform.apply(taken | {"spec": space("fore")["spec"]})
    await platform.apply(late)


async def test_host_conflict_does_not_reveal_the_space_of_another_tenant(
    platform: Platform,
) -> None:
    theirs = space("theirs", endpoints=[endpoint(expose=route())])
    theirs["metadata"]["namespace"] = "hidden"
    await platform.apply(theirs)
    with pytest.raises(Conflict, match="a space of another namespace; choose another") as refused:
        await platform.apply(space(endpoints=[endpoint(expose=route())]))
    assert "hidden" not in refused.value.message
    assert "theirs" not in refused.value.message


async def test_tls_key_is_not_written_to_a_secret_of_another_type(platform: Platform) -> None:
    other = secret("own", "", "") | {"type": "example.com/other"}
    cert = {"provider": "certBundle", "secretName": "own"}
    cert |= {"tlsCert": text("a chain"), "tlsKey": text("a key")}
    with pytest.raises(Invalid, match=r"cert.secretName: Secret 'own' is of type"):
        await platform.apply(other)
        await platform.apply(space(endpoints=[endpoint(cert=cert)]))
    assert platform.store.get(SHOP) is None
