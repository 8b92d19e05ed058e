"""What a space has come to, over `kill -9`: never more than was sent, never less than was kept."""

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
    """A platform of a data folder, killed and started again, and what was sent into it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.sent = 0

    def send(self, platform: Platform) -> None:
        """Send some messages, which are taken when this returns."""
        with closing(BlockingConnection(platform.url(), timeout=60)) as connection:
            sender = connection.create_sender("queue")
            for _ in range(BATCH):
                sender.send(Message(body="x" * 10))
                self.sent += 1

    def kept(self) -> int:
        """What the data folder has of it now, beside what the status of the space has."""
        try:
            found = json.loads((self.data / "usage.json").read_text())
        except FileNotFoundError:
            return 0
        return sum(one["messagesIn"] for periods in found.values() for one in periods)

    def until_kept(self, platform: Platform, messages: int) -> int:
        """Wait until so many are kept, or more; return how many."""
        while (kept := self.kept()) < messages:
            with suppress(subprocess.TimeoutExpired):
                pytest.fail(f"`enmasse up` ended with {platform.process.wait(0.1)}")
        return kept

    def told(self, platform: Platform) -> int:
        """What the status of the space says."""
        usage = platform.space()["status"].get("usage", [])
        return sum(one["messagesIn"] for one in usage)


def test_a_record_outlives_kills_neither_ahead_nor_lost(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "data")
    kept = 0
    for _ in range(KILLS):
        with running(sending.data) as platform:
            before = sending.told(platform)
            assert kept <= before <= sending.sent
            sending.send(platform)
            # Nobody sends: within a second all of it is looked at and kept.
            kept = sending.until_kept(platform, before + BATCH)
            assert kept == before + BATCH
            # What came in since the last look may be lost, and nothing else.
            sending.send(platform)
            platform.kill()
            kept = max(kept, sending.kept())
    with running(sending.data) as platform:
        before = sending.told(platform)
        assert kept <= before <= sending.sent
        sending.send(platform)
    # One that is told to end has written everything.
    with running(sending.data) as platform:
        assert sending.told(platform) == before + BATCH


def test_an_allowance_is_not_had_again_by_a_kill_or_by_a_new_space(tmp_path: Path) -> None:
    document = tmp_path / "plan.yaml"
    document.write_text(PLAN)
    data = tmp_path / "data"
    sending = Sending(data)
    with running(data, "-f", str(document)) as platform:
        sending.send(platform)
        sending.until_kept(platform, BATCH)
        platform.kill()
    with running(data) as platform:
        assert blocked(platform)
        platform.enmasse("delete", "addressspace", "default", "--force")
        platform.enmasse("apply", "-f", str(document))
        assert sending.told(platform) == BATCH
        assert blocked(platform)


def blocked(platform: Platform) -> bool:
    """Whether the space says that nobody may send."""
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
