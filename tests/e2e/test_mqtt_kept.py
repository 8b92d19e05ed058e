"""What MQTT clients leave behind belongs to their address space: backup, deletion, deep topics."""

import subprocess
from pathlib import Path

import pytest

from mqtt_client import Device, device, device_at
from platform_process import ENMASSE, Platform, running
from proton_client import address, document

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("alarms", "topic"))


def leave(platform: Platform) -> None:
    """A retained message, and a session with a waiting message."""
    with device_at(platform, "session", kept_s=3600) as one:
        one.subscribe("sensors/#", 1)
    with device_at(platform) as other:
        other.publish("alarms/last", "kept", retain=True)
        other.publish("sensors/1", "waiting")


def retained(one: Device) -> list[tuple[str, bytes]]:
    """The retained message of the alarms."""
    one.subscribe("alarms/#", 1)
    return one.take(1)


def test_backup_has_sessions_and_retained_messages(tmp_path: Path) -> None:
    path, file = document(tmp_path, *ADDRESSES), tmp_path / "backup.tar.gz"
    with running(tmp_path / "old", "-f", str(path)) as old:
        leave(old)
        old.enmasse("backup", str(file))
    subprocess.run([ENMASSE, "restore", file, "--data", tmp_path / "new"], check=True, timeout=120)
    with running(tmp_path / "new") as new:
        with device_at(new, "session", kept_s=3600) as one:
            assert one.session_present
            assert one.take(1) == [("sensors/1", b"waiting")]
        with device_at(new) as one:
            assert retained(one) == [("alarms/last", b"kept")]


def test_deletion_of_a_space_ends_its_sessions_and_retained_messages(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        leave(platform)
        platform.enmasse("delete", "addressspace", "default", "--force")
        platform.enmasse("apply", "-f", str(path))
        again = device("session", kept_s=3600)
        again.connect(platform)
        assert not again.session_present
        again.subscribe("alarms/#", 1)
        assert again.nothing_more()
        again.client.disconnect()
        again.client.loop_stop()


def test_topic_of_a_thousand_levels(tmp_path: Path) -> None:
    topic = "/".join(["sensors", *("x" for _ in range(999))])
    with (
        running(tmp_path / "data", "-f", str(document(tmp_path, *ADDRESSES))) as platform,
        device_at(platform) as one,
    ):
        for filter_ in ("sensors/#", "+/x/#", topic):
            one.subscribe(filter_, 1)
        one.publish(topic, "deep", retain=True)
        assert one.take(3) == [(topic, b"deep")] * 3
        with device_at(platform) as other:
            other.subscribe("sensors/+/x/#", 1)
            assert other.take(1) == [(topic, b"deep")]
