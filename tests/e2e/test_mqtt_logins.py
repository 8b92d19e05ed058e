"""MQTT clients log in with tokens and client certificates."""

import time
from pathlib import Path

import pytest

import token_issuer
from mqtt_client import Device, Refused, device
from platform_process import Platform, running
from proton_client import PASSWORD, address, document, user
from token_issuer import CLOSED_SPACE, FEDERATED_USER, published

pytestmark = pytest.mark.timeout(180)


def disconnect(one: Device) -> None:
    """End a connection as a client does."""
    one.client.disconnect()
    one.client.loop_stop()


def test_token_is_a_password_and_ends_its_connection_when_it_expires(tmp_path: Path) -> None:
    with published() as issuer:
        declared = tmp_path / "tokens.yaml"
        parts = [address("orders"), address("news"), FEDERATED_USER]
        declared.write_text(CLOSED_SPACE.format(issuer=issuer.url) + "---\n".join(parts))
        with running(tmp_path / "data", "-f", str(declared)) as platform:
            bad = issuer.token(exp=int(time.time()) - 1)
            with pytest.raises(Refused, match="Not authorized|Bad user name or password"):
                device("late", user="alice", password=bad).connect(platform)
            ends = int(time.time()) + 5
            one = device("meter", user="alice", password=issuer.token(exp=ends))
            one.connect(platform)
            assert one.subscribe("orders", 1) == "Granted QoS 1"
            assert one.publish("orders", "x") == "Success"
            assert one.take(1) == [("orders", b"x")]
            assert one.publish("news", "x") == "Not authorized"
            assert one.end() == "Not authorized"
            assert ends - 1 < time.time(), "the connection ended too early"
            one.client.loop_stop()


def certified(platform: Platform, folder: Path, name: str) -> Device:
    """A client with a certificate for a name."""
    tls = platform.data / "tls"
    key, certificate = token_issuer.client_certificate(tls, name)
    papers = token_issuer.written(folder, name, key, certificate)
    one = device(name)
    one.client.tls_set(str(tls / "ca.crt"), papers["certificate"], papers["key"])
    return one


def test_client_certificate_logs_in_without_a_user_name(tmp_path: Path) -> None:
    path = document(tmp_path, address("orders"), address("news"), user("alice", "orders"))
    with running(tmp_path / "data", "-f", str(path)) as platform:
        alice = certified(platform, tmp_path, "alice")
        alice.connect(platform, "mqtts")
        assert alice.publish("orders", "x") == "Success"
        assert alice.publish("news", "x") == "Not authorized"
        disconnect(alice)
        with pytest.raises(Refused):
            certified(platform, tmp_path, "mallory").connect(platform, "mqtts")
        with pytest.raises(Refused):
            device("bare").connect(platform)
        named = device("named", user="alice", password=PASSWORD)
        named.connect(platform)
        disconnect(named)
