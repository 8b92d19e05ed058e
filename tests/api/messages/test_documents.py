"""Messages in requests and responses."""

import base64
from typing import Any

import pytest

from enmasse.api.messages.documents import MessageDocument, parsed, shown_message
from enmasse.base.errors import Invalid
from enmasse.messaging import Data, Message, Sequence, Value


def message(**members: Any) -> Message:
    document: MessageDocument = parsed(members, MessageDocument)
    return document.message()


def test_the_encoding_decides_the_body() -> None:
    assert message(body="ü").body == Value("ü")
    assert message(body="ü", properties={"content_type": "text/plain"}).body == Data(
        ("ü".encode(),)
    )
    assert message(body={"a": [1, None]}, encoding="json").body == Data((b'{"a":[1,null]}',))
    assert message(body={"a": 1}, encoding="value").body == Value({"a": 1})
    assert message(body="ü", encoding="data").body == Data(("ü".encode(),))
    assert message(body="AAE=", encoding="base64").body == Data((b"\x00\x01",))
    assert message().body == Value("")


def test_a_message_without_a_body_is_not_one_with_a_null_value() -> None:
    assert message(encoding="none").body is None
    assert message(encoding="value").body == Value(None)


def test_json_has_its_content_type_unless_another_is_given() -> None:
    assert message(body=1, encoding="json").properties.content_type == "application/json"
    given = message(body=1, encoding="json", properties={"content_type": "a/b"})
    assert given.properties.content_type == "a/b"


def test_headers_and_properties() -> None:
    made = message(
        properties={"message_id": "m", "subject": "s", "group_id": "g"},
        applicationProperties={"n": 1, "x": 1.5, "b": True, "t": "u"},
        annotations={"x-opt-delivery-delay": 5},
        durable=False,
        ttlMs=1000,
        priority=9,
    )
    assert made.header is not None
    assert (made.header.durable, made.header.ttl_ms, made.header.priority) == (False, 1000, 9)
    assert made.properties.group_id == "g"
    assert dict(made.application_properties) == {"n": 1, "x": 1.5, "b": True, "t": "u"}
    assert dict(made.annotations) == {"x-opt-delivery-delay": 5}


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"body": 1}, "message.body"),
        ({"body": "x" * 65_537}, "message.body"),
        ({"body": "?", "encoding": "base64"}, "message.body"),
        ({"encoding": "xml"}, "encoding"),
        ({"body": "", "encoding": "none"}, "message.body"),
        ({"priority": 256}, "priority"),
        ({"ttlMs": 2**32}, "ttlMs"),
        ({"properties": {"user_id": "x"}}, "properties.user_id"),
        ({"applicationProperties": {"a": []}}, "applicationProperties.a"),
        ({"applicationProperties": {str(n): n for n in range(201)}}, "applicationProperties"),
        ({"other": 1}, "other"),
    ],
)
def test_a_malformed_message_names_its_field(members: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        message(**members)
    assert caught.value.faults[0].field.startswith(field)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (Data((b"\xff",)), "data"),
        (Value(1), "value"),
        (Sequence(([1],)), "sequence"),
        (None, "none"),
    ],
)
def test_the_typed_form_says_what_the_body_is(body: Any, kind: str) -> None:
    shown = shown_message(Message(body), "typed")
    assert shown["kind"] == kind
    assert ("raw" in shown) is (kind == "data")
    assert set(shown_message(Message(body), "plain")) == {"message"}


def test_bytes_survive_in_the_typed_form() -> None:
    shown = shown_message(Message(Data((b"\xff\x00",))), "typed")
    assert base64.b64decode(shown["raw"]["body"]) == b"\xff\x00"
