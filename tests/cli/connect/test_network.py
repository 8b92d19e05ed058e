"""What a listening address means."""

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
def test_who_can_reach_it(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_a_server_answers_to_its_names() -> None:
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
def test_a_url_is_one_that_this_machine_can_use(host: str, expected: str) -> None:
    assert url("amqp", host, 5672) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1"])
def test_this_machines_addresses_can_be_listened_on(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_a_host_that_is_not_this_machine_is_named_with_the_mend(host: str) -> None:
    with pytest.raises(
        Unavailable, match=f"cannot listen on {host}: .*; set --host to an address of this"
    ):
        check_host(host)


def test_origins_of_the_api_leave_out_default_ports() -> None:
    origins = origins_of(names_of("127.0.0.1"), {"http": 8080, "https": 443})
    assert set(origins) == {
        "http://localhost:8080",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "https://localhost",
        "https://127.0.0.1",
        "https://[::1]",
    }
