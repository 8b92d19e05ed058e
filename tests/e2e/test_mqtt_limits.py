"""MQTT at its limits: full queues, large payloads, clients that do not read."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from mqtt_bytes import wire_to
from mqtt_client import Refused, device, device_at
from platform_process import Platform, Start, running
from proton_client import address, document

pytestmark = pytest.mark.timeout(180)

ROOM = 5
"""Messages of the bounded queue."""

HOLD_MS = 1_000
"""How long a full queue holds a client back."""

MIB = 1 << 20
PACKET_BYTES_MAX = MIB + (64 << 10)
GROWTH_BYTES_MAX = 64 * MIB
ADDRESSES = (
    address("work", limits=f"{{messages: {ROOM}, onFull: block}}"),
    address("rejecting", limits=f"{{messages: {ROOM}, onFull: reject}}"),
    address("news", "topic"),
)


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with two bounded queues and a topic."""
    path = document(tmp_path_factory.mktemp("documents"), *ADDRESSES)
    return start_platform("-f", path, "--mqtt-hold-ms", str(HOLD_MS))


def test_client_that_publishes_to_and_consumes_from_a_full_queue_makes_progress(
    served: Platform,
) -> None:
    with device_at(served) as other:
        filling = [other.send("work", f"old {number}", 1) for number in range(ROOM)]
        assert {other.answer(one) for one in filling} == {"Success"}
        with device_at(served, "both") as both:
            # Its publications stand before its acknowledgements on the connection.
            sent = [both.send("work", f"new {number}", 1) for number in range(4 * ROOM)]
            both.subscribe("work", 1)
            codes = [both.answer(one) for one in sent]
            assert set(codes) <= {"Success", "Quota exceeded"}
            accepted = codes.count("Success")
            took = [payload for _, payload in both.take(ROOM + accepted)]
            assert took[:ROOM] == [f"old {number}".encode() for number in range(ROOM)]
            # Its last acknowledgements may still be on their way.
            while both.publish("work", "after") != "Success":
                pass
            assert both.take(1) == [("work", b"after")]


def test_publication_to_a_full_queue_that_rejects_is_refused_at_once(served: Platform) -> None:
    with device_at(served) as one:
        codes = [one.publish("rejecting", str(number)) for number in range(ROOM + 2)]
        assert codes == ["Success"] * ROOM + ["Quota exceeded"] * 2
        one.subscribe("rejecting", 1)
        one.take(ROOM)
        assert one.publish("rejecting", "room") == "Success"


def test_payloads_up_to_the_largest_packet_pass_and_a_larger_one_ends_its_connection(
    served: Platform,
) -> None:
    topic = "news/large"
    # A PUBLISH of QoS 1 has the topic with its length, the packet identifier and no properties.
    largest = PACKET_BYTES_MAX - 5 - (2 + len(topic)) - 2 - 1
    with device_at(served) as reader:
        reader.subscribe("news/#", 1)
        with device_at(served) as writer:
            for size in (MIB, largest):
                assert writer.publish(topic, b"x" * size) == "Success"
                assert len(reader.message().payload) == size
            writer.send(topic, b"x" * (PACKET_BYTES_MAX + 1), 1)
            assert writer.end() == "Packet too large"
        assert reader.nothing_more()


def test_subscriber_that_does_not_read_delays_no_other_and_takes_bounded_memory(
    served: Platform,
) -> None:
    with ExitStack() as clients:
        silent = clients.enter_context(wire_to(served))
        silent.connect("silent")
        silent.subscribe("news/#", 1)
        readers = [clients.enter_context(device_at(served)) for _ in range(5)]
        for reader in readers:
            reader.subscribe("news/#", 1)
        writer = clients.enter_context(device_at(served))
        before, count = served.peak_bytes(), 200
        for number in range(count):
            assert writer.publish("news/flood", str(number).ljust(MIB)) == "Success"
            assert [int(reader.message().payload) for reader in readers] == [number] * 5
        assert served.peak_bytes() - before < GROWTH_BYTES_MAX


PLANS = """
apiVersion: admin.enmasse.io/v1beta2
kind: AddressPlan
metadata: {name: small-topic}
spec: {addressType: topic, resources: {router: 0, broker: 0.1}}
---
apiVersion: admin.enmasse.io/v1beta2
kind: AddressSpacePlan
metadata: {name: small}
spec:
  addressSpaceType: standard
  infraConfigRef: default
  addressPlans: [small-topic]
  resourceLimits: {router: 1, broker: 1, aggregate: 2}
  limits: {mqttSessions: 2, retainedMessages: 3, retainedBytes: 1KiB}
"""
SPACE = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, plan: small}
"""


def test_plan_limits_sessions_and_retained_messages(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("---".join((PLANS, SPACE, f"\n{address('news', 'topic', plan='small-topic')}")))
    with running(tmp_path / "data", "-f", str(path)) as platform:
        for client_id in ("one", "two"):
            with device_at(platform, client_id, kept_s=60):
                pass
        with pytest.raises(Refused, match="Quota exceeded"):
            device("three", kept_s=60).connect(platform)
        with device_at(platform, "one", kept_s=60) as one:
            assert one.session_present
            kept = [one.publish(f"news/{number}", "x", retain=True) for number in range(5)]
            assert kept == ["Success"] * 3 + ["Quota exceeded"] * 2
            assert one.publish("news/0", "x" * 2048, retain=True) == "Quota exceeded"
        platform.enmasse("session", "end", "two")
        with device_at(platform, "three", kept_s=60) as three:
            assert not three.session_present
