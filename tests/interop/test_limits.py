"""Limits of a plan as foreign clients feel them; `README.md` beside this file is the contract."""

from collections.abc import Callable

import pytest

from interop.clients import CLIENTS, QUICK, Client, place, prepared
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

client = prepared(CLIENTS[name] for name in QUICK)


@pytest.fixture(scope="module")
def limited(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Limited:
    """Start a platform whose space has these limits, and its queues those."""

    def start(space: str, queue: str = "") -> Platform:
        documents = tmp_path_factory.mktemp("documents") / "limited.yaml"
        documents.write_text(PLANS.replace("LIMITS", queue).replace("SPACE", space))
        return start_platform("-f", documents)

    return start


@pytest.fixture(scope="module")
def bounded(limited: Limited) -> Platform:
    """A platform with bounds of what there may be at a time."""
    return limited(
        f"{{connections: {CONNECTIONS}, links: {LINKS}, messageSize: {SIZE_BYTES}}}",
        f"limits: {{bytes: {STORED_BYTES}, onFull: reject}}",
    )


@pytest.fixture(scope="module")
def paced(limited: Limited) -> Platform:
    """A platform that takes so many messages a second."""
    return limited(f"{{messagesPerSecond: {RATE}}}", "")


@pytest.fixture(scope="module")
def narrow(limited: Limited) -> Platform:
    """A platform that takes so many bytes a second: four messages of the tests."""
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


def test_a_client_is_told_how_large_a_message_may_be_and_a_larger_one_ends_its_link(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("too_large", address="orders", **place(bounded))
    assert answer == {"told": SIZE_BYTES, "condition": "amqp:link:message-size-exceeded"}


def test_a_queue_that_holds_its_bytes_rejects_and_says_why(
    client: Client, bounded: Platform
) -> None:
    bounded.enmasse("purge", "orders")
    answer = client.call("overfill", address="orders", count=500, size=1500, **place(bounded))
    assert answer["outcome"] == "rejected"
    assert answer["condition"] == FULL
    assert STORED_BYTES // 3000 <= answer["accepted"] <= STORED_BYTES // 1500


def test_a_message_that_outlives_its_time_goes_to_the_dead_letter(
    client: Client, bounded: Platform
) -> None:
    answer = client.call("overdue", address="brief", dead="dead", **place(bounded))
    assert answer == {"body": "nobody comes", "cause": "expired"}


def test_who_sends_more_messages_a_second_waits_for_credit_and_goes_on(
    client: Client, paced: Platform
) -> None:
    answer = poured(client, paced, size=10, patient=True)
    assert answer["accepted"] < 10 * RATE, "a second's worth and what credit was out"
    assert (answer["stuck"], answer["later"]) == (True, 1)


def test_who_sends_more_bytes_a_second_waits_for_credit_and_goes_on(
    client: Client, narrow: Platform
) -> None:
    answer = poured(client, narrow, size=1000, patient=True)
    assert answer["accepted"] < 40
    assert (answer["stuck"], answer["later"]) == (True, 1)


def test_an_allowance_that_is_used_up_ends_credit(client: Client, limited: Limited) -> None:
    allowance = "{messagesPerSecond: 50, allowance: {period: month, messages: 20}}"
    platform = limited(allowance, "")
    # What comes within a second, until the counters are looked at, is bounded by the rate.
    first = poured(client, platform, size=10, patient=False, quiet_s=3.0)
    assert first["stuck"]
    assert 20 <= first["accepted"] < 400
    platform.enmasse("wait", "addressspace", "default", "--for", "condition=Sending=False")
    again = poured(client, platform, size=10, patient=False, quiet_s=1.0)
    assert (again["accepted"], again["stuck"]) == (0, True)


def poured(
    client: Client, platform: Platform, *, size: int, patient: bool, quiet_s: float = 0.2
) -> dict[str, object]:
    """Send until there is no credit for a while; then, who is patient, one more."""
    return client.call(
        "pour",
        address="orders",
        count=1000,
        size=size,
        quiet_s=quiet_s,
        patient=patient,
        **place(platform),
    )
