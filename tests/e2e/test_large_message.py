"""A message of 1 GiB passes in bounded memory, and begins to arrive before all of it has left."""

import struct
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from proton import uint

from platform_process import Platform
from wire import ACCEPTED, CLOSE, DISPOSITION, FLOW, RECEIVER, SENDER, TRANSFER, WINDOW_MAX, Wire

CHUNK_BYTES = 120 * 1024
# A client that only receives has to send frames within its idle timeout.
BEAT_BYTES = 64 * 1024 * 1024
GROWTH_BYTES_MAX = 64 * 1024 * 1024
DATA_SECTION = b"\x00\x53\x75\xb0"


def send_message(wire: Wire, body_bytes: int, halfway: Event) -> None:
    """Send one unsettled message of zeros, and stop in its middle until `halfway` is set."""
    payload = DATA_SECTION + struct.pack(">I", body_bytes)
    identity: tuple[object, ...] = (uint(0), b"large", uint(0), False)
    left, sent, limit = body_bytes, 0, 0
    while left:
        while sent >= limit:  # the session's window; its first flow also gives the link credit
            flow = wire.expect(FLOW)
            limit = int(flow[0]) + int(flow[1])
        if left <= body_bytes // 2:
            assert halfway.wait(60), "the first half did not arrive before the second was sent"
        chunk = bytes(min(left, CHUNK_BYTES))
        left -= len(chunk)
        wire.send(TRANSFER, uint(0), *identity, left > 0, payload=payload + chunk)
        payload, identity, sent = b"", (None, None, None, None), sent + 1


def receive_message(wire: Wire, body_bytes: int, halfway: Event) -> int:
    """Take one message, check that it is all zeros and accept it; return the body's length."""
    wire.send(FLOW, uint(0), WINDOW_MAX, uint(0), WINDOW_MAX, uint(0), uint(0), uint(1))
    received = -len(DATA_SECTION) - 4
    beat = 0
    while True:
        code, fields, payload = wire.receive()
        assert code != CLOSE, fields
        if code != TRANSFER:
            continue
        if received >= beat:
            wire.beat()
            beat += BEAT_BYTES
        if received >= 0:
            assert not any(payload[:64]), "the body is zeros"
        received += len(payload)
        if received >= body_bytes // 3:
            halfway.set()
        if len(fields) < 6 or not fields[5]:
            break
    wire.send(DISPOSITION, RECEIVER, uint(0), None, True, ACCEPTED)
    return received


def pass_through(platform: Platform, body_bytes: int) -> None:
    halfway = Event()
    with (
        ThreadPoolExecutor(1) as threads,
        Wire(platform.port(), 60) as consumer,
        Wire(platform.port(), 60) as producer,
    ):
        consumer.start("consumer")
        consumer.attach(RECEIVER, "in", "anycast")
        producer.start("producer")
        producer.attach(SENDER, "out", "anycast")
        sending = threads.submit(send_message, producer, body_bytes, halfway)
        assert receive_message(consumer, body_bytes, halfway) == body_bytes
        sending.result(60)
        assert producer.expect(DISPOSITION)[4] == ACCEPTED


@pytest.mark.timeout(120)
def test_large_message_is_forwarded_before_its_last_frame(platform: Platform) -> None:
    pass_through(platform, 16 * 1024 * 1024)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_gibibyte_passes_in_bounded_memory(platform: Platform) -> None:
    pass_through(platform, 1024 * 1024)
    before = platform.peak_bytes()
    pass_through(platform, 1024 * 1024 * 1024)
    assert platform.peak_bytes() - before < GROWTH_BYTES_MAX
