"""The commands `pub` and `sub`, as programs against a running platform."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.messaging.test_commands import TIMEOUT_S, beside, run
from mqtt_client import device_at
from platform_process import ENMASSE, Platform, running
from proton_client import PASSWORD, address, document, user

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with running(tmp_path_factory.mktemp("data")) as platform:
        yield platform


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("closed")
    declared = document(folder, address("sensors", "topic"), user("alice", "sensors/7/*"))
    with running(folder / "data", "-f", str(declared)) as platform:
        yield platform


def url(platform: Platform, login: str = "") -> str:
    """The URL of the listener for MQTT, with `USER:PASSWORD@` or without."""
    return f"mqtt://{login}127.0.0.1:{platform.port('mqtt')}"


def test_queued_publication_is_received_with_its_properties(up: Platform) -> None:
    sent = run(
        up, "pub", "queue", "--body", "one espresso", "-p", "table=7",
        "--content-type", "text/plain", "--reply-to", "answers", "--ttl", "90s", "--qos", "2",
    )  # fmt: skip
    assert (sent.returncode, sent.stdout) == (0, "1 published\n")
    received = run(up, "sub", "queue", "--count", "1", "--qos", "2", "--output", "json")
    found = json.loads(received.stdout)
    assert 80 < found["properties"].pop("MessageExpiryInterval") <= 90
    assert found == {
        "topic": "queue",
        "payload": "one espresso",
        "qos": 2,
        "retain": False,
        "properties": {
            "ContentType": "text/plain",
            "ResponseTopic": "answers",
            "UserProperty": [["table", "7"]],
        },
    }


def test_printed_messages_are_acknowledged_and_no_others(up: Platform) -> None:
    run(up, "pub", "queue", "--body", "-", "--qos", "1").check_returncode()
    sent = run(up, "pub", "queue", "--body", "-", "-o", "json", stdin="a\nb\nc\n")
    assert json.loads(sent.stdout) == {"sent": 3, "published": 3}
    assert run(up, "sub", "queue", "--count", "1").stdout == "a\n"
    assert run(up, "sub", "queue", "--count", "2").stdout == "b\nc\n"
    nothing = run(up, "sub", "queue", "--count", "1", "--timeout", "0.5")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "received 0 of 1 messages" in nothing.stderr


def test_more_publications_than_may_be_unacknowledged_are_all_published(up: Platform) -> None:
    sent = run(up, "pub", "many", "--count", "2500", "--size", "10", "-o", "json")
    assert json.loads(sent.stdout) == {"sent": 2500, "published": 2500}


def test_retained_publication_greets_a_new_subscription(up: Platform) -> None:
    run(up, "pub", "plant/1", "--body", "dry", "--retain").check_returncode()
    assert run(up, "sub", "plant/+", "--count", "1").stdout == "dry\n"


def test_session_receives_what_is_published_between_two_calls(up: Platform) -> None:
    listen = ("sub", "alarms/#", "--client-id", "desk", "--session-expiry", "1h")
    assert run(up, *listen, "--timeout", "0.5").stdout == ""
    run(up, "pub", "alarms/3", "--body", "fire").check_returncode()
    assert run(up, *listen, "--count", "1").stdout == "fire\n"


def test_session_without_a_client_id_is_wrong_usage(up: Platform) -> None:
    refused = run(up, "sub", "alarms", "--session-expiry", "1h")
    assert refused.returncode == 2
    assert "needs --client-id" in refused.stderr


def test_subscription_is_ended_by_the_server(up: Platform) -> None:
    run(up, "pub", "news", "--body", "ready", "--retain").check_returncode()
    with beside(up, "sub", "news", "--client-id", "reader") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        with device_at(up, "reader"):
            assert reader.wait(TIMEOUT_S) == 7


@pytest.mark.parametrize(
    ("login", "words", "code", "text"),
    [
        ("", ("pub", "sensors/7/temp"), 4, r"refused: Not authorized|Bad user name or password"),
        ("alice:wrong@", ("pub", "sensors/7/temp"), 4, "Bad user name or password"),
        (f"alice:{PASSWORD}@", ("sub", "sensors/#"), 4, "'sensors/#' is refused: Not authorized"),
        (f"alice:{PASSWORD}@", ("pub", "sensors/8/temp"), 1, "1: Not authorized"),
        (f"alice:{PASSWORD}@", ("pub", "sensors/+"), 1, "wildcards"),
    ],
)
def test_refusal_names_its_reason(
    closed: Platform, login: str, words: tuple[str, ...], code: int, text: str
) -> None:
    refused = run(closed, *words, "--url", url(closed, login))
    assert refused.returncode == code
    assert re.search(text, refused.stdout + refused.stderr)


def test_user_with_the_right_publishes(closed: Platform) -> None:
    listen = ("sub", "sensors/7/+", "--url", url(closed, f"alice:{PASSWORD}@"))
    run(
        closed, "pub", "sensors/7/temp", "--body", "21.5", "--retain", "--space", "default.default",
        "--url", url(closed, f"alice:{PASSWORD}@"),
    ).check_returncode()  # fmt: skip
    assert run(closed, *listen, "--count", "1").stdout == "21.5\n"


def test_tls_server_of_the_platform_is_trusted_by_its_authority(up: Platform) -> None:
    place = f"mqtts://localhost:{up.port('mqtts')}"
    authority = str(up.data / "tls" / "ca.crt")
    sent = run(up, "pub", "over-tls", "--url", place, "--ca", authority)
    assert sent.stdout == "1 published\n"
    refused = run(up, "pub", "over-tls", "--url", place)
    assert refused.returncode == 7
    assert "certificate verify failed" in refused.stderr


def test_context_of_another_platform_does_not_lead_to_the_one_of_this_machine(
    up: Platform, tmp_path: Path
) -> None:
    contexts = tmp_path / "enmasse" / "config.yaml"
    contexts.parent.mkdir()
    contexts.write_text("current: far\ncontexts: {far: {server: 'https://mq.example.com:6443'}}\n")
    environment = {name: one for name, one in up.environment.items() if name != "ENMASSE_DATA"}
    refused = subprocess.run(
        [ENMASSE, "pub", "orders"],
        env=environment | {"XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert refused.returncode == 3
    assert "the context names no MQTT server; pass --url" in refused.stderr


def test_url_of_another_protocol_is_refused(up: Platform) -> None:
    refused = run(up, "pub", "orders", "--url", up.url("amqp"))
    assert refused.returncode == 1
    assert "write mqtt://" in refused.stderr
