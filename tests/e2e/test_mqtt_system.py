"""Topics of the node's own below `$SYS`."""

from pathlib import Path

import pytest

from mqtt_client import break_off, device_at
from platform_process import Platform, Start, running
from proton_client import PASSWORD, address, document, user

pytestmark = pytest.mark.timeout(120)

CONNECTED = "$SYS/broker/clients/connected"


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a topic."""
    path = document(tmp_path_factory.mktemp("documents"), address("sensors", "topic"))
    return start_platform("-f", path)


def test_values_come_at_once(served: Platform) -> None:
    with device_at(served) as one, device_at(served):
        assert one.subscribe("$SYS/#", 1) == "Granted QoS 1"
        values = dict(one.take(8))
        assert values[CONNECTED] == b"2"
        assert values["$SYS/broker/version"].startswith(b"EnMasse ")
        assert values["$SYS/broker/uptime"].endswith(b" seconds")
        assert {"$SYS/broker/messages/received", "$SYS/broker/bytes/sent"} < values.keys()


def test_filters_select_values(served: Platform) -> None:
    with device_at(served) as one:
        one.subscribe("$SYS/broker/clients/+")
        one.subscribe("#", 1)
        message = one.message()
        assert (message.topic, message.qos) == (CONNECTED, 0)
        assert one.nothing_more(), "a wildcard at the beginning matches no $SYS [5: 4.7.2-1]"
        one.unsubscribe("$SYS/broker/clients/+")


def test_shared_subscription_is_refused(served: Platform) -> None:
    with device_at(served) as one:
        assert one.subscribe("$share/a/$SYS/#") == "Shared subscription not supported"


def test_session_continues_to_get_values(served: Platform) -> None:
    with device_at(served, "statistics", kept_s=60) as one:
        one.subscribe(CONNECTED, 1)
        one.message()
        break_off(one)
        assert one.message().topic == CONNECTED
        one.unsubscribe(CONNECTED)


def test_values_need_a_right(tmp_path: Path) -> None:
    users = (user("amy", "sensors/#"), user("operator", "$SYS/#"))
    path = document(tmp_path, address("sensors", "topic"), *users)
    with running(tmp_path / "data", "-f", str(path), "--insecure") as platform:
        with device_at(platform, user="amy", password=PASSWORD) as one:
            assert one.subscribe("$SYS/#", 1) == "Not authorized"
        with device_at(platform, user="operator", password=PASSWORD) as one:
            one.subscribe("$SYS/#", 1)
            assert len(one.take(8)) == 8
