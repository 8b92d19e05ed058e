"""`enmasse receive`: receive messages from an address."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from enmasse.cli.options import Address, Ca, Data, Mechanism, Url

if TYPE_CHECKING:
    from enmasse.messaging import Message, Outcome


class Form(StrEnum):
    """How a message is printed."""

    TEXT = "text"
    JSON = "json"


class Settle(StrEnum):
    """What a receiver says of a message."""

    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    MODIFY = "modify"


def receive(
    address: Address,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", metavar="N", min=1, help="End after so many messages."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="End when none has come for so long."),
    ] = None,
    settle: Annotated[
        Settle, typer.Option(help="What the sender is told of each message.")
    ] = Settle.ACCEPT,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="Bodies as text, or messages as JSON lines.")
    ] = Form.TEXT,
    url: Url = None,
    ca: Ca = None,
    mechanism: Mechanism = None,
    data: Data = None,
) -> None:
    """Receive messages and print one a line.

    Without --count and --timeout it goes on until Ctrl-C. The exit code is 1 if fewer than --count
    came.

    Examples:

      enmasse receive orders

      enmasse receive 'news/#' --count 10 --timeout 5 --output json
    """
    import asyncio

    from enmasse.cli import transfer
    from enmasse.cli.connect import Server

    async def run() -> int:
        async with Server(url, data, ca, mechanism).session() as session:
            return await transfer.receive(
                session,
                address,
                lambda message: print(written(message, output), flush=True),
                count=count,
                outcome=_outcome(settle),
                timeout_s=timeout,
            )

    if asyncio.run(run()) < (count or 0):
        raise typer.Exit(1)


def written(message: "Message", form: Form) -> str:
    """Return a message as one line."""
    import json

    from enmasse.messaging import as_document

    if form is Form.JSON:
        return json.dumps(as_document(message), ensure_ascii=False)
    return message.text


def _outcome(settle: Settle) -> "Outcome":
    from enmasse.messaging import Accepted, Modified, Rejected, Released

    match settle:
        case Settle.REJECT:
            return Rejected()
        case Settle.RELEASE:
            return Released()
        case Settle.MODIFY:
            return Modified(delivery_failed=True)
    return Accepted()
