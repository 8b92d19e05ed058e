"""Messages of the commands, from their options."""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from enmasse.cli.resources.targets import seconds
from enmasse.messaging import Body, Data, Header, Message, Properties, Value

FILLING = b"EnMasse "
"""Fill byte of generated bodies."""

DELAY = "x-opt-delivery-delay"
"""Annotation with the delivery delay in milliseconds."""

PRIORITY = 4
"""Default priority (3.2.1)."""


@dataclass(frozen=True, slots=True)
class Template:
    """The common parts of a command's messages."""

    durable: bool = False
    properties: tuple[tuple[str, Any], ...] = ()
    """Application properties."""

    priority: int | None = None
    ttl_ms: int | None = None
    annotations: tuple[tuple[str, Any], ...] = ()
    standard: Properties = Properties()  # noqa: RUF009

    @classmethod
    def of(
        cls,
        assignments: Sequence[str] | None,
        durable: bool,
        *,
        priority: int | None = None,
        ttl: str | None = None,
        delay: str | None = None,
        annotations: Sequence[str] | None = None,
        standard: Properties | None = None,
    ) -> "Template":
        """Return the template for options: `name=value` assignments, durations as text.

        Raises: BadParameter for a malformed assignment or duration.
        """
        annotated = [assigned(one, "--annotation") for one in annotations or ()]
        if delay is not None:
            annotated.append((DELAY, _milliseconds(delay, "--delay")))
        return cls(
            durable,
            tuple(assigned(one, "--properties") for one in assignments or ()),
            priority,
            None if ttl is None else _milliseconds(ttl, "--ttl"),
            tuple(annotated),
            standard or Properties(),
        )

    def messages(self, text: str | None, size: int | None, count: int | None) -> Iterator[Message]:
        """Yield messages with a text, with `size` bytes, or for `-` with lines of stdin.

        The default count is one, or every line of stdin.

        Raises: BadParameter if both text and size are given.
        """
        return (
            self.around(Data((one,)) if isinstance(one, bytes) else Value(one))
            for one in bodies(text, size, count)
        )

    def around(self, body: Body) -> Message:
        """Return a message with a body."""
        if self.standard.content_type is not None and isinstance(body, Value):
            # content-type describes binary bodies, not typed values (3.2.4).
            body = Data((str(body.value).encode(),))
        header = Header(
            self.durable, PRIORITY if self.priority is None else self.priority, self.ttl_ms
        )
        return Message(
            body=body,
            properties=self.standard,
            header=None if header == Header() else header,
            application_properties=dict(self.properties),
            annotations=dict(self.annotations),
        )


def bodies(text: str | None, size: int | None, count: int | None) -> Iterator[str | bytes]:
    """Yield a text, `size` bytes, or for `-` lines of stdin.

    The default count is one, or every line of stdin.

    Raises: BadParameter if both text and size are given.
    """
    if text is not None and size is not None:
        raise typer.BadParameter("give a body or a size, not both", param_hint="--size")
    if text == "-":
        return itertools.islice((line.rstrip("\n") for line in sys.stdin), count)
    return itertools.repeat(text or "" if size is None else _filled(size), count or 1)


def _filled(size: int) -> bytes:
    return (FILLING * (size // len(FILLING) + 1))[:size]


def _milliseconds(text: str, option: str) -> int:
    milliseconds = round(seconds(text, option) * 1000)
    if milliseconds >= 2**32:
        raise typer.BadParameter("is at most 49 days", param_hint=option)
    return milliseconds


def assigned(assignment: str, option: str) -> tuple[str, Any]:
    """Return the name and value of `name=value`. Numbers and booleans keep their type.

    Raises: BadParameter if it is malformed.
    """
    name, separator, text = assignment.partition("=")
    if not name or not separator:
        raise typer.BadParameter(
            f"{assignment!r} is not an assignment; write name=value", param_hint=option
        )
    try:
        value = json.loads(text)
    except ValueError:
        return name, text
    return name, value if isinstance(value, bool | int | float) else text
