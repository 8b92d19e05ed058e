"""AMQP 1.0 frame by frame over a socket: the responses that the standard requires of a peer.

The names of the tests give the sections that they check.
"""

import struct
from typing import Any

import pytest
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong

from platform_process import Platform
from wire import (
    ACCEPTED,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    RECEIVER,
    SENDER,
    TRANSFER,
    WINDOW_MAX,
    Wire,
    encoded,
    source,
    target,
)

AMQP, SASL = b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)
AUTH = 1
BODY = bytes.fromhex("005377a1026869")
"""The section `amqp-value` with the string "hi"."""


@pytest.fixture
def wire(platform: Platform) -> Any:
    with Wire(platform.port()) as wire:
        yield wire


def opened(wire: Wire) -> Wire:
    wire.socket.sendall(AMQP)
    wire.send(OPEN, "frames")
    assert wire.read(8) == AMQP
    wire.expect(OPEN)
    return wire


def begun(wire: Wire) -> Wire:
    wire.start("frames")
    return wire


def sending(wire: Wire, address: str = "queue", **fields: Any) -> list[Any]:
    """Attach a sender; return the fields of the answer, once there is credit."""
    answer: list[Any] = attach(wire, SENDER, source(None), target(address), **fields)
    wire.expect(FLOW)
    return answer


def attach(wire: Wire, role: bool, *ends: Any, handle: int = 0, rcv: int | None = None) -> Any:
    mode = None if rcv is None else ubyte(rcv)
    wire.send(ATTACH, f"link-{handle}", uint(handle), role, None, mode, *ends, None, None, uint(0))
    return wire.expect(ATTACH)


def transfer(wire: Wire, number: int, tag: bytes, payload: bytes = BODY, **more: Any) -> None:
    """Send the first frame of a delivery; `more` are later fields by name."""
    fields = [uint(more.pop("handle", 0)), uint(number), tag, uint(more.pop("format", 0))]
    fields += [more.pop("settled", None), more.pop("more", None)]
    wire.send(TRANSFER, *fields, payload=payload)


def error_of(fields: list[Any], place: int) -> tuple[str, dict[str, Any]]:
    """Condition and info of an error among the fields of a frame."""
    error = fields[place].value
    info = error[2] if len(error) > 2 and error[2] else {}
    return str(error[0]), {str(key): value for key, value in info.items()}


def closed_with(wire: Wire) -> str:
    return error_of(wire.expect(CLOSE), 0)[0]


def ended_with(wire: Wire) -> str:
    return error_of(wire.expect(END), 0)[0]


def detached_with(wire: Wire) -> tuple[str, dict[str, Any]]:
    fields = wire.expect(DETACH)
    assert fields[1] is True, "closed"
    return error_of(fields, 2)


def test_2_2_unsupported_protocol_header_gets_the_supported_one(platform: Platform) -> None:
    for header in (b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"GET / HT"):
        with Wire(platform.port()) as wire:
            wire.socket.sendall(header)
            assert wire.read(9) == AMQP, "only the header precedes the end of the stream"


def test_2_3_1_a_malformed_frame_closes_with_framing_error(platform: Platform) -> None:
    frames = [
        struct.pack(">IBBH", 8, 1, 0, 0),
        struct.pack(">IBBH", 7, 2, 0, 0),
        struct.pack(">IBBH", 2**31, 2, 0, 0),
        struct.pack(">IBBH", 8, 3, 0, 0),
        struct.pack(">IBBH", 8, 2, 9, 0),
    ]
    for frame in frames:
        with Wire(platform.port()) as wire:
            opened(wire).socket.sendall(frame)
            assert closed_with(wire) == "amqp:connection:framing-error"


def test_2_4_1_open_on_another_channel_than_0_closes_with_framing_error(wire: Wire) -> None:
    wire.socket.sendall(AMQP)
    wire.send_on(1, OPEN, "elsewhere")
    assert wire.read(8) == AMQP
    wire.expect(OPEN)
    assert closed_with(wire) == "amqp:connection:framing-error"


def test_1_3_4_missing_mandatory_field_closes_with_invalid_field(platform: Platform) -> None:
    with Wire(platform.port()) as wire:
        wire.socket.sendall(AMQP)
        wire.send(OPEN, None)
        wire.read(8)
        wire.expect(OPEN)
        assert closed_with(wire) == "amqp:invalid-field"
    for code, fields in (
        (BEGIN, [None, None, None, None]),
        (ATTACH, [None, None, SENDER]),
        (FLOW, [None, None, None, None]),
        (TRANSFER, [None]),
        (DISPOSITION, [RECEIVER, None]),
        (DETACH, [None]),
    ):
        with Wire(platform.port()) as wire:
            begun(wire).send(code, *fields)
            assert closed_with(wire) == "amqp:invalid-field", code


def test_2_7_1_a_channel_above_channel_max_closes_with_framing_error(wire: Wire) -> None:
    opened(wire).send_on(40_000, BEGIN, None, uint(0), WINDOW_MAX, WINDOW_MAX)
    assert closed_with(wire) == "amqp:connection:framing-error"


def test_2_5_1_begin_response_names_the_remote_channel(wire: Wire) -> None:
    opened(wire).send_on(37, BEGIN, None, uint(0), uint(0), uint(0))
    assert wire.expect(BEGIN)[0] == 37
    wire.send_on(37, END)
    wire.expect(END)
    wire.send(CLOSE)
    wire.expect(CLOSE)


def test_2_4_5_empty_frames_are_accepted(wire: Wire) -> None:
    opened(wire).socket.sendall(struct.pack(">IBBH", 8, 2, 0, 0) * 3)
    wire.send(CLOSE)
    wire.expect(CLOSE)


def test_2_7_4_requested_flow_is_sent_for_session_and_link(wire: Wire) -> None:
    window = [uint(0), WINDOW_MAX, uint(0), WINDOW_MAX]
    begun(wire).send(FLOW, *window, None, None, None, None, None, True)
    answer = wire.expect(FLOW)
    assert len(answer) < 5 or answer[4] is None, "the flow is of the session"
    attach(wire, RECEIVER, source("anycast"), target(None))
    wire.send(FLOW, *window, uint(0), uint(0), uint(1), None, None, True)
    assert wire.expect(FLOW)[4] == 0


def test_2_6_7_drain_consumes_the_remaining_credit(wire: Wire) -> None:
    attach(begun(wire), RECEIVER, source("anycast"), target(None))
    wire.send(FLOW, uint(0), WINDOW_MAX, uint(0), WINDOW_MAX, uint(0), uint(0), uint(5), None, True)
    answer = wire.expect(FLOW)
    assert (answer[5], answer[6], answer[8]) == (5, 0, True)


def test_2_7_unattached_handle_ends_the_session(platform: Platform) -> None:
    window = [uint(0), WINDOW_MAX, uint(0), WINDOW_MAX]
    for code, fields in (
        (FLOW, [*window, uint(9)]),
        (TRANSFER, [uint(9), uint(0), b"0"]),
        (DETACH, [uint(9)]),
    ):
        with Wire(platform.port()) as wire:
            begun(wire).send(code, *fields)
            assert ended_with(wire) == "amqp:session:unattached-handle", code


def test_2_7_3_a_handle_in_use_ends_the_session(wire: Wire) -> None:
    attach(begun(wire), RECEIVER, source("anycast"), target(None))
    wire.send(ATTACH, "other", uint(0), RECEIVER, None, None, source("anycast"), target(None))
    assert ended_with(wire) == "amqp:session:handle-in-use"


def test_2_7_5_first_transfer_without_id_or_tag_detaches_the_link(platform: Platform) -> None:
    for fields in ([uint(0), None, b"tag"], [uint(0), uint(0), None]):
        with Wire(platform.port()) as wire:
            sending(begun(wire))
            wire.send(TRANSFER, *fields, payload=BODY)
            assert detached_with(wire)[0] == "amqp:invalid-field"


def test_2_7_5_later_transfer_with_another_tag_or_format_detaches_the_link(
    platform: Platform,
) -> None:
    for later in ([uint(0), None, b"other"], [uint(0), None, None, uint(7)]):
        with Wire(platform.port()) as wire:
            sending(begun(wire))
            transfer(wire, 0, b"tag", payload=BODY[:2], settled=True, more=True)
            wire.send(TRANSFER, *later, payload=BODY[2:])
            assert detached_with(wire)[0] == "amqp:decode-error"


def test_2_6_12_duplicate_tag_of_an_unsettled_delivery_detaches_the_link(
    platform: Platform,
) -> None:
    # The receiver does not settle, so the first delivery stays unsettled.
    with Wire(platform.port()) as receiver, Wire(platform.port()) as wire:
        attach(begun(receiver), RECEIVER, source("anycast"), target(None))
        window = [uint(0), WINDOW_MAX, uint(0), WINDOW_MAX]
        receiver.send(FLOW, *window, uint(0), uint(0), uint(9))
        sending(begun(wire), "anycast")
        transfer(wire, 0, b"tag")
        receiver.expect(TRANSFER)
        transfer(wire, 1, b"tag")
        assert detached_with(wire)[0] == "amqp:decode-error"


def test_2_6_12_same_tag_on_two_links_is_accepted(wire: Wire) -> None:
    sending(begun(wire))
    sending(wire, handle=1)
    transfer(wire, 0, b"tag")
    transfer(wire, 1, b"tag", handle=1)
    settled: set[int] = set()
    while settled < {0, 1}:
        fields = wire.expect(DISPOSITION)
        settled |= set(range(fields[1], (fields[2] if fields[2] is not None else fields[1]) + 1))


def test_2_7_5_transfer_with_rcv_settle_mode_second_on_a_first_link_detaches(wire: Wire) -> None:
    sending(begun(wire), rcv=0)
    wire.send(TRANSFER, uint(0), uint(0), b"tag", uint(0), False, False, ubyte(1), payload=BODY)
    assert detached_with(wire)[0] == "amqp:invalid-field"


def test_2_4_2_pipelined_frames_are_accepted(wire: Wire) -> None:
    parts = [
        AMQP,
        encoded(0, OPEN, "pipelined"),
        encoded(0, BEGIN, None, uint(0), uint(0), uint(0)),
        encoded(
            0,
            ATTACH,
            "s",
            uint(0),
            SENDER,
            None,
            None,
            source(None),
            target("queue"),
            None,
            None,
            uint(0),
        ),
        encoded(0, TRANSFER, uint(0), uint(0), b"tag", uint(0), True, payload=BODY),
        encoded(0, CLOSE),
    ]
    wire.socket.sendall(b"".join(parts))
    assert wire.read(8) == AMQP
    for code in (OPEN, BEGIN, ATTACH, FLOW, CLOSE):
        wire.expect(code)


def test_2_6_13_resuming_attach_gets_an_empty_unsettled_map(wire: Wire) -> None:
    ends = [source(None), target("queue")]
    begun(wire).send(ATTACH, "s", uint(0), SENDER, None, None, *ends, {}, None, uint(0))
    assert wire.expect(ATTACH)[7] == {}


def test_non_resumable_sender_gets_rcv_settle_mode_first(wire: Wire) -> None:
    answer = sending(begun(wire), rcv=1)
    assert answer[4] in (None, 0)
    transfer(wire, 0, b"tag")
    fields = wire.expect(DISPOSITION)
    assert (fields[0], fields[1], fields[3], fields[4]) == (RECEIVER, 0, True, ACCEPTED)


def outcomes(*names: str) -> Described:
    listed = Array(UNDESCRIBED, Data.SYMBOL, *(symbol(name) for name in names))
    return Described(ulong(0x28), [*[None] * 9, listed])


def test_anonymous_terminus_2_2_2_unknown_address_is_not_found_with_the_tag(
    platform: Platform,
) -> None:
    astray = properties_to("nowhere") + BODY
    for end, settled, detaches in (
        (source(None), False, False),
        (source(None), True, True),
        (outcomes("amqp:accepted:list"), False, True),
    ):
        with Wire(platform.port()) as wire:
            attach(begun(wire), SENDER, end, target(None))
            wire.expect(FLOW)
            transfer(wire, 0, b"the tag", payload=astray, settled=settled)
            if detaches:
                condition, info = detached_with(wire)
            else:
                state = wire.expect(DISPOSITION)[4]
                condition, info = error_of(state.value, 0)
            assert (condition, info) == ("amqp:not-found", {"delivery-tag": b"the tag"})


def properties_to(address: str) -> bytes:
    """The section `properties` with `to` alone."""
    text = address.encode()
    fields = b"\x40\x40\xa1" + bytes([len(text)]) + text
    return b"\x00\x53\x73\xc0" + bytes([len(fields) + 1, 3]) + fields


def test_3_5_3_and_3_5_9_malformed_dynamic_node_detaches_with_decode_error(
    platform: Platform,
) -> None:
    def made(address: str | None, properties: dict[Any, Any] | None) -> Described:
        return Described(ulong(0x29), [address, None, None, None, True, properties])

    for end in (
        made("anycast", None),
        made(None, {symbol("lifetime-policy"): uint(1)}),
        made(None, {symbol("supported-dist-modes"): uint(0)}),
    ):
        with Wire(platform.port()) as wire:
            answer = attach(begun(wire), SENDER, source(None), end)
            assert len(answer) < 7 or answer[6] is None
            assert detached_with(wire)[0] == "amqp:decode-error"


def test_5_3_2_a_mechanism_that_is_not_offered_is_refused(wire: Wire) -> None:
    wire.socket.sendall(SASL)
    assert wire.read(8) == SASL
    assert wire.receive()[0] == MECHANISMS
    wire.send_sasl(INIT, symbol("NOT-A-MECHANISM"))
    code, fields, _ = wire.receive()
    assert (code, fields) == (OUTCOME, [AUTH])
    assert wire.read(1) == b""


def test_5_3_2_server_only_sasl_frame_ends_the_connection(platform: Platform) -> None:
    for code, fields in ((MECHANISMS, [symbol("X")]), (CHALLENGE, [b""]), (OUTCOME, [ubyte(0)])):
        with Wire(platform.port()) as wire:
            wire.socket.sendall(SASL)
            wire.read(8)
            wire.receive()
            wire.send_sasl(code, *fields)
            assert wire.read(1) == b"", code


def test_5_3_1_empty_sasl_frame_or_amqp_frame_ends_the_sasl_exchange(platform: Platform) -> None:
    for frame in (struct.pack(">IBBH", 8, 2, 1, 0), encoded(0, OPEN, "bypass")):
        with Wire(platform.port()) as wire:
            wire.socket.sendall(SASL)
            wire.read(8)
            wire.receive()
            wire.socket.sendall(frame)
            assert wire.read(1) == b""


def test_5_3_2_pipelined_sasl_exchange_is_accepted(wire: Wire) -> None:
    parts = [
        SASL,
        encoded(0, INIT, symbol("ANONYMOUS"), kind=1),
        AMQP,
        encoded(0, OPEN, "pipelined"),
    ]
    wire.socket.sendall(b"".join(parts))
    assert wire.read(8) == SASL
    assert wire.receive()[0] == MECHANISMS
    code, fields, _ = wire.receive()
    assert (code, fields[0]) == (OUTCOME, 0)
    assert wire.read(8) == AMQP
    wire.expect(OPEN)


def test_2_7_2_session_offers_a_handle_max_of_65535(wire: Wire) -> None:
    opened(wire).send(BEGIN, None, uint(0), WINDOW_MAX, WINDOW_MAX)
    assert wire.expect(BEGIN)[4] == 65_535
    wire.send(
        ATTACH,
        "high",
        uint(20_000),
        SENDER,
        None,
        None,
        source(None),
        target("queue"),
        None,
        None,
        uint(0),
    )
    wire.expect(ATTACH)
