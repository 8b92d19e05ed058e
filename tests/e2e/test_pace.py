"""The message rate and the allowance of a space, as its clients see them."""

import json
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message, Timeout
from proton.utils import BlockingConnection, BlockingSender

from platform_process import Platform, Start, running

pytestmark = pytest.mark.timeout(180)

SPACE = "spec: {addressSpaceType: standard, infraConfigRef: default, addressPlans: [paced-queue],"
PLANS = f"""
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {{name: paced-queue}}
spec: {{addressType: queue, resources: {{router: 0, broker: 0.1}}}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressSpacePlan
metadata: {{name: paced}}
{SPACE} resourceLimits: {{router: 1, broker: 1, aggregate: 2}}, limits: LIMITS}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, plan: paced}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.orders}}
spec: {{type: queue, address: orders, plan: paced-queue}}
"""


def plans(folder: Path, limits: str) -> Path:
    file = folder / "paced.yaml"
    file.write_text(PLANS.replace("LIMITS", limits))
    return file


def status(platform: Platform) -> dict[str, object]:
    listed = platform.enmasse("get", "addressspaces", "default", "--output", "json")
    found = json.loads(listed)
    return dict(found["status"])


def is_sending(platform: Platform) -> str:
    conditions = status(platform)["conditions"]
    assert isinstance(conditions, list)
    return str(next(one["status"] for one in conditions if one["type"] == "Sending"))


def send_until_stuck(sender: BlockingSender) -> int:
    """Send until there is no credit for a second; return the number of messages."""
    count = 0
    while True:
        try:
            sender.send(Message(body="x"), timeout=1)
        except Timeout:
            return count
        count += 1
        assert count < 100_000


def test_message_rate_delays_senders_without_refusals(
    tmp_path: Path, start_platform: Start
) -> None:
    file = plans(tmp_path, "{messagesPerSecond: 50}")
    platform = start_platform("-f", file)
    with closing(BlockingConnection(platform.url(), timeout=60)) as connection:
        sender, began = connection.create_sender("orders"), time.monotonic()
        for number in range(150):
            sender.send(Message(body=number))
        assert time.monotonic() - began > 1.8, "a burst of 50 messages, then 50 a second"
        # The plan changes while the link waits for credit.
        faster = str(plans(tmp_path, "{}"))
        thread = threading.Thread(target=platform.enmasse, args=("apply", "-f", faster))
        thread.start()
        for number in range(150, 2000):
            sender.send(Message(body=number))
        thread.join()
        receiver = connection.create_receiver("orders", credit=100)
        for number in range(2000):
            assert receiver.receive(timeout=30).body == number
            receiver.accept()


def test_exhausted_allowance_stops_credit_until_it_is_raised(tmp_path: Path) -> None:
    data = tmp_path / "data"
    small = plans(tmp_path, "{messagesPerSecond: 100, allowance: {period: month, messages: 150}}")
    with (
        running(data, "-f", str(small)) as platform,
        closing(BlockingConnection(platform.url(), timeout=60)) as connection,
    ):
        assert is_sending(platform) == "True"
        sent = send_until_stuck(connection.create_sender("orders"))
        # Counters are checked once a second; until then only the rate bounds the messages.
        assert 150 <= sent <= 450
        platform.enmasse("wait", "addressspace", "default", "--for", "condition=Sending=False")
        messages = str(status(platform)["messages"])
        assert "the allowance of 150 messages of 20" in messages
        assert "until 20" in messages
        receiver = connection.create_receiver("orders", credit=10)
        assert receiver.receive(timeout=30).body == "x", "stored messages stay available"
        receiver.accept()
    with (
        running(data) as platform,
        closing(BlockingConnection(platform.url(), timeout=60)) as connection,
    ):
        usage = status(platform)["usage"]
        assert isinstance(usage, list)
        assert usage[0]["messagesIn"] == sent
        assert is_sending(platform) == "False"
        sender = connection.create_sender("orders")
        assert send_until_stuck(sender) == 0
        large = plans(tmp_path, "{allowance: {period: month, messages: 1000000}}")
        platform.enmasse("apply", "-f", str(large))
        sender.send(Message(body="again"), timeout=30)
        platform.enmasse("wait", "addressspace", "default", "--for", "condition=Sending")
        assert "Usage:" in platform.enmasse("describe", "addressspace", "default")
