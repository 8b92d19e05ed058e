"""Limits of a plan with foreign clients; `README.md` beside this file is the contract."""

from collections.abc import Callable

import pytest

from interop.clients import CLIENTS, Client, place, prepared
from platform_process import Platform, Start

pytestmark = pytest.mark.timeout(180)

CONNECTIONS, LINKS, SIZE_BYTES, STORED_BYTES, RATE = 4, 12, 2048, 100_000, 2
FULL = "amqp:resource-limit-exceeded"

PLANS = """
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {name: small}
spec: {addressType: queue, resources: {router: 0, broker: 0.1}, LIMITS}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {name: dead}
spec: {addressType: deadletter, resources: {router: 0, broker: 0}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressSpacePlan
metadata: {name: limited}
spec:
  addressSpaceType: standard
  infraConfigRef: default
  addressPlans: [small, dead]
  resourceLimits: {router: 1, broker: 1, aggregate: 2}
  limits: SPACE
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, plan: limited}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.orders}
spec: {type: queue, address: orders, plan: small, deadletter: dead}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.brief}
spec: {type: queue, address: brief, plan: small, deadletter: dead, messageTtl: {maximum: 1s}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.dead}
spec: {type: deadletter, address: dead, plan: dead}
"""

Limited = Callable[[str, str], Platform]

client = prepared(CLIENTS[name] for name in ("python", "javascript"))


@pytest.fixture(scope="module")
def limited(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Limited:
    """Start a platform with these limits of its space and of its queues."""

    def start(space: str, queue: str = "") -> Platform:
        documents = tmp_path_factory.mktemp("documents") / "limited.yaml"
        documents.write_text(PLANS.replace("LIMITS", queue).replace("SPACE", space))
        return start_platform("-f", documents)

    return start


@pytest.fixture(scope="module")
def bounded(limited: Limited) -> Platform:
    """A platform that bounds connections, links, message sizes and stored bytes."""
    return limited(
        f"{{connections: {CONNECTIONS}, links: {LINKS}, messageSize: {SIZE_BYTES}}}",
        f"limits: {{bytes: {STORED_BYTES}, onFull: reject}}",
    )


@pytest.fixture(scope="module")
def paced(limited: Limited) -> Platform:
    """A platform that accepts `RATE` messages a second."""
    return limited(f"{{messagesPerSecond: {RATE}}}", "")


@pytest.fixture(scope="module")
def narrow(limited: Limited) -> Platform:
    """A platform that accepts 4000 bytes a second: four messages of the tests."""
    return limited("{bytesPerSecond: 4000}", "")


def test_connections_beyond_the_limit_are_closed_with_a_condition(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("crowd", address="orders", count=10, **place(bounded))
    assert answer == {"open": CONNECTIONS, "condition": FULL}


def test_links_beyond_the_limit_are_detached_with_a_condition(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("links", address="orders", count=40, **place(bounded))
    assert answer == {"open": LINKS, "condition": FULL}


def test_attach_states_max_message_size_and_a_larger_message_detaches_the_link(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("too_large", address="orders", **place(bounded))
    assert answer == {"told": SIZE_BYTES, "condition": "amqp:link:message-size-exceeded"}


def test_full_queue_rejects_with_resource_limit_exceeded(client: Client, bounded: Platform) -> None:
    bounded.enmasse("purge", "orders")
    answer = client.call("overfill", address="orders", count=500, size=1500, **place(bounded))
    assert answer["outcome"] == "rejected"
    assert answer["condition"] == FULL
    assert STORED_BYTES // 3000 <= answer["accepted"] <= STORED_BYTES // 1500


def test_message_past_its_ttl_goes_to_the_dead_letter_address(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("overdue", address="brief", dead="dead", **place(bounded))
    assert answer == {"body": "nobody comes", "cause": "expired"}


def test_sender_above_the_message_rate_stalls_without_credit_then_continues(
    client: Client, paced: Platform
) -> None:
    answer = send_until_out_of_credit(client, paced, size=10, patient=True)
    assert answer["accepted"] < 10 * RATE, "one second of messages and the granted credit"
    assert (answer["stuck"], answer["later"]) == (True, 1)


def test_sender_above_the_byte_rate_stalls_without_credit_then_continues(
    client: Client, narrow: Platform
) -> None:
    answer = send_until_out_of_credit(client, narrow, size=1000, patient=True)
    assert answer["accepted"] < 40
    assert (answer["stuck"], answer["later"]) == (True, 1)


def test_exhausted_allowance_stops_credit(client: Client, limited: Limited) -> None:
    allowance = "{messagesPerSecond: 50, allowance: {period: month, messages: 20}}"
    platform = limited(allowance, "")
    # Counters are checked once a second; until then only the rate bounds the messages.
    first = send_until_out_of_credit(client, platform, size=10, patient=False, quiet_s=3.0)
    assert first["stuck"]
    assert 20 <= first["accepted"] < 400
    platform.enmasse("wait", "addressspace", "default", "--for", "condition=Sending=False")
    again = send_until_out_of_credit(client, platform, size=10, patient=False, quiet_s=1.0)
    assert (again["accepted"], again["stuck"]) == (0, True)


def send_until_out_of_credit(
    client: Client, platform: Platform, *, size: int, patient: bool, quiet_s: float = 0.2
) -> dict[str, object]:
    """Send until no credit arrives for `quiet_s`; a patient sender then sends one more."""
    return client.call(
        "pour",
        address="orders",
        count=1000,
        size=size,
        quiet_s=quiet_s,
        patient=patient,
        **place(platform),
    )
