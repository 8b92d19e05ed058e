"""Messages through the native codec and back."""

import math
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enmasse.base.errors import Invalid, PeerError
from enmasse.messaging import Data, Header, Message, Properties, Sequence, Value
from enmasse.messaging.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from enmasse.native import decode_message, encode_message


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


ascii_text = st.text(st.characters(max_codepoint=127), max_size=20)
unicode_text = st.text(max_size=20)
moments = st.datetimes(timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    integers(64, signed=True),
    st.floats(allow_nan=False),
    unicode_text,
    st.binary(max_size=20),
    st.uuids(),
    moments,
    integers(8, signed=False).map(Ubyte),
    integers(16, signed=False).map(Ushort),
    integers(32, signed=False).map(Uint),
    integers(64, signed=False).map(Ulong),
    integers(8, signed=True).map(Byte),
    integers(16, signed=True).map(Short),
    integers(32, signed=True).map(Int),
    st.floats(allow_nan=False, width=32).map(Float),
    st.characters(codec="utf-8").map(Char),
    ascii_text.map(Symbol),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(unicode_text, inner, max_size=4),
        st.builds(Described, ascii_text.map(Symbol), inner),
    ),
    max_leaves=8,
)
identities = st.one_of(
    st.none(),
    unicode_text,
    st.binary(max_size=20),
    st.uuids(),
    integers(64, signed=False).map(Ulong),
)
texts = st.none() | unicode_text
symbols = st.none() | ascii_text
bodies = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=20), min_size=1, max_size=3).map(tuple).map(Data),
    st.lists(st.lists(values, max_size=3), min_size=1, max_size=3).map(tuple).map(Sequence),
    values.map(Value),
)
annotations = st.dictionaries(ascii_text, values, max_size=3)
messages = st.builds(
    Message,
    body=bodies,
    properties=st.builds(
        Properties,
        message_id=identities,
        user_id=st.none() | st.binary(max_size=20),
        to=texts,
        subject=texts,
        reply_to=texts,
        correlation_id=identities,
        content_type=symbols,
        content_encoding=symbols,
        absolute_expiry_time=st.none() | moments,
        creation_time=st.none() | moments,
        group_id=texts,
        group_sequence=st.none() | integers(32, signed=False),
        reply_to_group_id=texts,
    ),
    application_properties=st.dictionaries(unicode_text, scalars, max_size=3),
    header=st.none()
    | st.builds(
        Header,
        durable=st.booleans(),
        priority=integers(8, signed=False),
        ttl_ms=st.none() | integers(32, signed=False),
        first_acquirer=st.booleans(),
        delivery_count=integers(32, signed=False),
    ),
    annotations=annotations,
    delivery_annotations=annotations,
    footer=annotations,
)


def kinds(value: Any) -> Any:
    """The types within a value, which distinguish 1, 1.0, True and Ubyte(1)."""
    if isinstance(value, dict):
        return {key: kinds(inner) for key, inner in value.items()}
    if isinstance(value, Described):
        return Described, kinds(value.descriptor), kinds(value.value)
    if isinstance(value, list | tuple):
        return type(value), [kinds(inner) for inner in value]
    return type(value)


@given(messages)
def test_message_round_trips_through_the_codec(message: Message) -> None:
    data = encode_message(message)
    back = decode_message(data)
    assert back == message
    assert encode_message(back) == data


@given(values)
def test_a_value_keeps_its_type(value: Any) -> None:
    back = decode_message(encode_message(Message(Value(value)))).body
    assert isinstance(back, Value)
    assert back.value == value
    assert kinds(back.value) == kinds(value)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_to_a_message_or_a_peer_error(data: bytes) -> None:
    try:
        message = decode_message(data)
    except PeerError as error:
        assert str(error).startswith("message: ")
    else:
        assert decode_message(encode_message(message)) == message


@given(messages, st.data())
def test_truncated_message_is_a_peer_error(message: Message, data: st.DataObject) -> None:
    encoded = encode_message(message)
    cut = data.draw(st.integers(0, len(encoded)))
    try:
        decode_message(encoded[:cut])
    except PeerError:
        assert cut < len(encoded)


def test_amqp_types_without_a_python_type_round_trip_as_own_types() -> None:
    past = -62_135_596_800_001  # the millisecond before year 1
    for value in [Array((Int(1), Int(2))), Timestamp(past), Timestamp(2**62), Array(())]:
        back = decode_message(encode_message(Message(Value(value)))).body
        assert back == Value(value)
        assert kinds(back.value) == kinds(value)


def test_plain_python_values_are_encoded_as_a_fitting_amqp_type() -> None:
    def back(value: Any) -> Any:
        return decode_message(encode_message(Message(Value(value)))).content

    assert type(back(5)) is int
    assert type(back(Long(5))) is int
    assert back(2**63) == 2**63 and type(back(2**63)) is Ulong
    assert math.isnan(back(float("nan")))
    assert back((1, "a")) == [1, "a"]
    assert back(bytearray(b"ab")) == b"ab" and back(memoryview(b"ab")) == b"ab"


def test_timestamp_of_any_time_zone_keeps_its_instant() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    assert decode_message(encode_message(Message(Value(moment)))).content == moment


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message(Value(2**64)), "body: 18446744073709551616 does not fit"),
        (Message(Value(-(2**63) - 1)), "does not fit"),
        (Message(Value(Ubyte(256))), "body: 256 does not fit"),
        (Message(Value(object())), "body: a value of type object"),
        (Message(Value(datetime(2026, 3, 1))), "without a time zone"),
        (Message(Value(Symbol("é"))), "not ASCII"),
        (Message(Value(Array((1, "a")))), "must have one type"),
        (Message(annotations={"é": 1}), "annotations: the key"),
        (Message(annotations={"x-opt-a": {1}}), "x-opt-a: a value of type set"),
        (Message(application_properties={"size": 2**64}), "size: "),
        (Message.of("x", message_id=1.5), "message_id: "),
        (Message.of("x", correlation_id=-1), "correlation_id: "),
        (Message.of("x", creation_time="now"), "creation_time: "),
    ],
)
def test_unencodable_message_is_rejected_naming_the_section(message: Message, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        encode_message(message)
    assert said in str(caught.value)


def test_values_nested_too_deeply_are_rejected() -> None:
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested]
    with pytest.raises(Invalid, match="nest at most"):
        encode_message(Message(Value(nested)))


def test_message_of_plain_content_has_the_matching_body() -> None:
    message = Message.of("hello", subject="greeting", correlation_id=7)
    assert (message.body, message.text) == (Value("hello"), "hello")
    assert (message.properties.subject, message.properties.correlation_id) == ("greeting", 7)
    assert Message.of(b"\xff\x00").body == Data((b"\xff\x00",))
    assert Message.of(b"caf\xc3\xa9").text == "café"
    assert Message(Data((b"ab", b"cd"))).content == b"abcd"
    assert Message(Sequence(([1], [2, 3]))).content == [[1], [2, 3]]
    assert (Message().content, Message().text) == (None, "")
    assert Message.of({"a": 1}).text == "{'a': 1}"


def test_a_message_cannot_be_changed() -> None:
    properties = {"colour": "red"}
    message = Message.of("x")
    message = replace(message, application_properties=properties)
    properties["colour"] = "blue"
    assert message.application_properties == {"colour": "red"}
    with pytest.raises(TypeError):
        message.application_properties["colour"] = "green"  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        message.body = None  # type: ignore[misc]


def test_message_ids_of_every_type_round_trip() -> None:
    for identity in ["a", b"b", UUID(int=7), 0, 2**64 - 1]:
        message = decode_message(encode_message(Message.of("x", message_id=identity)))
        assert message.properties.message_id == identity
