"""Messages built from options."""

import io
import itertools

import pytest
import typer

from enmasse.cli.messaging.messages import Template
from enmasse.messaging import Data, Header, Properties, Value


def test_one_body_makes_one_message() -> None:
    (message,) = Template().messages("hello", None, None)
    assert message.body == Value("hello")
    assert message.header is None
    assert next(iter(Template().messages(None, None, None))).body == Value("")


def test_size_option_sets_the_body_length() -> None:
    sizes = [0, 1, 7, 8, 9, 1000]
    made = [next(Template().messages(None, size, 1)).body for size in sizes]
    assert [len(body.content) for body in made if isinstance(body, Data)] == sizes


def test_a_count_repeats_the_body() -> None:
    assert len(list(Template().messages("x", None, 5))) == 5


def test_each_line_of_stdin_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb \n\nd"))
    bodies = [message.body for message in Template().messages("-", None, None)]
    assert bodies == [Value("a"), Value("b "), Value(""), Value("d")]
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\nc\n"))
    assert len(list(Template().messages("-", None, 2))) == 2


def test_stdin_is_read_lazily_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", (f"{number}\n" for number in itertools.count()))
    messages = Template().messages("-", None, None)
    assert [next(messages).body for _ in range(3)] == [Value("0"), Value("1"), Value("2")]


def test_properties_and_durability_are_on_every_message() -> None:
    template = Template.of(["a=1", "b=1.5", "c=true", "d=text", "e=[1]", "f=", "g=x=y"], True)
    for message in template.messages("x", None, 2):
        assert message.header == Header(durable=True)
        assert dict(message.application_properties) == {
            "a": 1,
            "b": 1.5,
            "c": True,
            "d": "text",
            "e": "[1]",
            "f": "",
            "g": "x=y",
        }


@pytest.mark.parametrize("assignment", ["", "name", "=value"])
def test_malformed_assignment_is_wrong_usage(assignment: str) -> None:
    with pytest.raises(typer.BadParameter, match="write name=value"):
        Template.of([assignment], False)


def test_body_and_size_options_exclude_each_other() -> None:
    with pytest.raises(typer.BadParameter, match="not both"):
        Template().messages("x", 1, 1)


def test_header_properties_and_annotations_are_on_every_message() -> None:
    template = Template.of(
        None,
        False,
        priority=7,
        ttl="1m30s",
        delay="250ms",
        annotations=["x-opt-partition=2", "x-opt-team=north"],
        standard=Properties(subject="s", reply_to="r", group_id="g"),
    )
    for message in template.messages("x", None, 2):
        assert message.header == Header(priority=7, ttl_ms=90_000)
        assert message.properties == Properties(subject="s", reply_to="r", group_id="g")
        assert dict(message.annotations) == {
            "x-opt-partition": 2,
            "x-opt-team": "north",
            "x-opt-delivery-delay": 250,
        }


def test_content_type_makes_a_data_body() -> None:
    template = Template.of(None, False, standard=Properties(content_type="application/json"))
    (message,) = template.messages('{"a": 1}', None, None)
    assert message.body == Data((b'{"a": 1}',))
    assert message.properties.content_type == "application/json"


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("ttl", "soon", "invalid duration"),
        ("delay", "-1s", "invalid duration"),
        ("ttl", "2000h", "at most 49 days"),
    ],
)
def test_invalid_duration_option_is_wrong_usage(option: str, text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said) as refusal:
        Template.of(None, False, **{option: text})  # type: ignore[arg-type]
    assert refusal.value.param_hint == f"--{option}"
