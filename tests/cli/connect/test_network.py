"""Listening addresses: reachability, names, URLs and origins."""

import socket

import pytest

from enmasse.base.errors import Unavailable
from enmasse.base.hosts import is_loopback
from enmasse.cli.connect.network import check_host, names_of, origins_of, url


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("mq.example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_loopback_hosts_are_recognized(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_server_names_cover_loopback_hostname_and_address() -> None:
    loopback = {"localhost", "127.0.0.1", "::1"}
    assert set(names_of("127.0.0.1")) == loopback
    assert set(names_of("0.0.0.0")) == loopback | {socket.gethostname()}
    assert set(names_of("192.0.2.1")) == loopback | {socket.gethostname(), "192.0.2.1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "amqp://127.0.0.1:5672"),
        ("::1", "amqp://[::1]:5672"),
        ("0.0.0.0", "amqp://127.0.0.1:5672"),
        ("::", "amqp://[::1]:5672"),
        ("mq.example.com", "amqp://mq.example.com:5672"),
    ],
)
def test_url_of_a_wildcard_host_uses_loopback(host: str, expected: str) -> None:
    assert url("amqp", host, 5672) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1"])
def test_local_hosts_pass_the_listen_check(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_foreign_host_fails_the_listen_check_with_a_remedy(host: str) -> None:
    with pytest.raises(
        Unavailable, match=f"cannot listen on {host}: .*; set --host to an address of this"
    ):
        check_host(host)


def test_api_origins_omit_default_port_numbers() -> None:
    origins = origins_of(names_of("127.0.0.1"), {"http": 8080, "https": 443})
    assert set(origins) == {
        "http://localhost:8080",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "https://localhost",
        "https://127.0.0.1",
        "https://[::1]",
    }
