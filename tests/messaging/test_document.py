"""Messages as plain data."""

from datetime import UTC, datetime

from enmasse.messaging import Data, Header, Message, Properties, Sequence, Value, as_document


def test_message_document_omits_empty_sections_and_decodes_bytes() -> None:
    message = Message(
        body=Value({"a": [1, b"x", None]}),
        properties=Properties(
            message_id="1", creation_time=datetime(2026, 1, 1, tzinfo=UTC), reply_to="r"
        ),
        application_properties={"team": "north"},
        header=Header(durable=True),
    )
    assert as_document(message) == {
        "body": {"a": [1, "x", None]},
        "properties": {
            "message_id": "1",
            "reply_to": "r",
            "creation_time": "2026-01-01 00:00:00+00:00",
        },
        "applicationProperties": {"team": "north"},
        "header": {"durable": True},
    }
    assert as_document(Message()) == {"body": None}
    assert as_document(Message(Data((b"a", b"b")))) == {"body": "ab"}
    assert as_document(Message(Sequence(([1], [2])))) == {"body": [[1], [2]]}
