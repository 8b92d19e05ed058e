"""From options to messages."""

import io
import itertools

import pytest
import typer

from enmasse.cli.messages import Template
from enmasse.messaging import Data, Header, Value


def test_one_text_is_one_message() -> None:
    (message,) = Template().messages("hello", None, None)
    assert message.body == Value("hello")
    assert message.header is None
    assert list(Template().messages(None, None, None))[0].body == Value("")


def test_a_size_is_that_many_bytes() -> None:
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


def test_stdin_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_what_is_no_assignment_is_wrong_usage(assignment: str) -> None:
    with pytest.raises(typer.BadParameter, match="write name=value"):
        Template.of([assignment], False)


def test_a_text_and_a_size_do_not_go_together() -> None:
    with pytest.raises(typer.BadParameter, match="not both"):
        Template().messages("x", 1, 1)
