"""Usage of a space across `kill -9`: at most what was sent, at least what was recorded."""

import json
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from platform_process import Platform, running

pytestmark = pytest.mark.timeout(180)

BATCH = 20
KILLS = 3


class Sending:
    """A sender to the platforms of one data folder; counts the messages that it sends."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.sent = 0

    def send(self, platform: Platform) -> None:
        """Send a batch of messages and wait until they are accepted."""
        with closing(BlockingConnection(platform.url(), timeout=60)) as connection:
            sender = connection.create_sender("queue")
            for _ in range(BATCH):
                sender.send(Message(body="x" * 10))
                self.sent += 1

    def kept(self) -> int:
        """The number of messages in the usage record of the data folder."""
        try:
            found = json.loads((self.data / "usage.json").read_text())
        except FileNotFoundError:
            return 0
        return sum(one["messagesIn"] for periods in found.values() for one in periods)

    def wait_until_recorded(self, platform: Platform, messages: int) -> int:
        """Wait until at least `messages` are recorded; return the recorded number."""
        while (kept := self.kept()) < messages:
            with suppress(subprocess.TimeoutExpired):
                pytest.fail(f"`enmasse up` ended with {platform.process.wait(0.1)}")
        return kept

    def told(self, platform: Platform) -> int:
        """The number of messages in the status of the space."""
        usage = platform.space()["status"].get("usage", [])
        return sum(one["messagesIn"] for one in usage)


def test_usage_record_survives_kills_without_loss_or_excess(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "data")
    kept = 0
    for _ in range(KILLS):
        with running(sending.data) as platform:
            before = sending.told(platform)
            assert kept <= before <= sending.sent
            sending.send(platform)
            # While no client sends, all messages are recorded within a second.
            kept = sending.wait_until_recorded(platform, before + BATCH)
            assert kept == before + BATCH
            # Only the usage since the last record may be lost.
            sending.send(platform)
            platform.kill()
            kept = max(kept, sending.kept())
    with running(sending.data) as platform:
        before = sending.told(platform)
        assert kept <= before <= sending.sent
        sending.send(platform)
    # A clean stop records all usage.
    with running(sending.data) as platform:
        assert sending.told(platform) == before + BATCH


def test_allowance_is_not_reset_by_a_kill_or_a_recreated_space(tmp_path: Path) -> None:
    document = tmp_path / "plan.yaml"
    document.write_text(PLAN)
    data = tmp_path / "data"
    sending = Sending(data)
    with running(data, "-f", str(document)) as platform:
        sending.send(platform)
        sending.wait_until_recorded(platform, BATCH)
        platform.kill()
    with running(data) as platform:
        assert blocked(platform)
        platform.enmasse("delete", "addressspace", "default", "--force")
        platform.enmasse("apply", "-f", str(document))
        assert sending.told(platform) == BATCH
        assert blocked(platform)


def blocked(platform: Platform) -> bool:
    """Whether the condition `Sending` of the space is false."""
    conditions = platform.space()["status"]["conditions"]
    return any(one["type"] == "Sending" and one["status"] == "False" for one in conditions)


PLAN = f"""
apiVersion: admin.enmasse.io/v1beta2
kind: AddressSpacePlan
metadata: {{name: small-month}}
spec:
  addressSpaceType: standard
  infraConfigRef: default
  addressPlans: [standard-small-queue]
  resourceLimits: {{router: 1, broker: 1, aggregate: 2}}
  limits: {{allowance: {{period: month, messages: {BATCH}}}}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, plan: small-month}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.queue}}
spec: {{type: queue, address: queue}}
"""
