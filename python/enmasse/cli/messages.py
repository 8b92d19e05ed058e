"""What messages of the commands look like: from options to messages."""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from enmasse.messaging import Body, Data, Header, Message, Value

FILLING = b"EnMasse "
"""What a body of a given size is filled with."""


@dataclass(frozen=True, slots=True)
class Template:
    """What all messages of a command have in common."""

    durable: bool = False
    properties: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, assignments: Sequence[str] | None, durable: bool) -> "Template":
        """Return the template for `name=value` assignments; numbers, true and false are such.

        Raises: BadParameter for what is no assignment.
        """
        return cls(durable, tuple(_property(one) for one in assignments or ()))

    def messages(self, text: str | None, size: int | None, count: int | None) -> Iterator[Message]:
        """Yield messages with a text, with `size` bytes, or for `-` with lines of stdin.

        Without a count there is one; of stdin there are all lines.
        Raises: BadParameter if there are both text and size.
        """
        if text is not None and size is not None:
            raise typer.BadParameter("give a body or a size, not both", param_hint="--size")
        bodies: Iterator[Any]
        if text == "-":
            bodies = itertools.islice((line.rstrip("\n") for line in sys.stdin), count)
        else:
            body = text or "" if size is None else _filled(size)
            bodies = itertools.repeat(body, count or 1)
        return (
            self.around(Data((one,)) if isinstance(one, bytes) else Value(one)) for one in bodies
        )

    def around(self, body: Body) -> Message:
        """Return a message around a body."""
        return Message(
            body=body,
            header=Header(durable=True) if self.durable else None,
            application_properties=dict(self.properties),
        )


def _filled(size: int) -> bytes:
    return (FILLING * (size // len(FILLING) + 1))[:size]


def _property(assignment: str) -> tuple[str, Any]:
    name, separator, text = assignment.partition("=")
    if not name or not separator:
        raise typer.BadParameter(
            f"{assignment!r} is no property; write name=value", param_hint="--properties"
        )
    try:
        value = json.loads(text)
    except ValueError:
        return name, text
    return name, value if isinstance(value, bool | int | float) else text
