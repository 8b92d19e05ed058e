"""The head of an encoded message, which says where an undecodable message of a stream is."""

from hypothesis import given
from hypothesis import strategies as some

from enmasse.api.messages.streams import head_of
from enmasse.messaging import Header, Message, Properties, Value
from enmasse.native import decode_message, encode_message

KEYS = some.text(some.characters(codec="ascii"), max_size=20)
MAPS = some.dictionaries(KEYS, some.integers(0, 2**31) | some.text(), max_size=20)
HEADERS = some.none() | some.builds(Header, durable=some.booleans(), priority=some.integers(0, 9))
MESSAGES = some.builds(
    Message,
    body=some.builds(Value, some.text(max_size=300)),
    header=HEADERS,
    annotations=MAPS,
    delivery_annotations=MAPS,
    properties=some.builds(Properties, subject=some.none() | some.text()),
)


@given(MESSAGES, some.binary(max_size=20))
def test_the_head_has_the_annotations_and_nothing_behind_them(
    message: Message, rest: bytes
) -> None:
    encoded = encode_message(message)
    head = head_of(encoded)
    assert encoded.startswith(head)
    found = decode_message(head)
    assert found.annotations == decode_message(encoded).annotations
    assert found.properties == Properties()
    if not rest.startswith(b"\0\x53"):
        assert head_of(head + rest) == head, "whatever follows"


@given(some.binary(max_size=40))
def test_any_bytes_have_a_head(data: bytes) -> None:
    assert len(head_of(data)) <= len(data)
