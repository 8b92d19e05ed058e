"""`enmasse receive`: receive messages from an address."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from enmasse.cli.options import (
    Address,
    Ca,
    Data,
    Form,
    InSpace,
    Mechanism,
    MessageForm,
    ReceiveCount,
    ReceiveTimeout,
    Url,
)

if TYPE_CHECKING:
    from enmasse.messaging import Message, Outcome


class Settle(StrEnum):
    """What a receiver says of a message."""

    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    MODIFY = "modify"


def receive(
    address: Address,
    count: ReceiveCount = None,
    timeout: ReceiveTimeout = None,
    settle: Annotated[
        Settle, typer.Option(help="What the sender is told of each message.")
    ] = Settle.ACCEPT,
    output: MessageForm = Form.TEXT,
    space: InSpace = None,
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

    from enmasse.cli import errors, transfer
    from enmasse.cli.connect import Server

    async def run() -> int:
        async with Server(url, data, ca, mechanism, space).session(timeout) as session:
            return await transfer.receive(
                session,
                address,
                lambda message: print(written(message, output), flush=True),
                count=count,
                outcome=_outcome(settle),
                timeout_s=timeout,
            )

    came = asyncio.run(run())
    if count is not None and came < count:
        then = "the server ended the link" if timeout is None else f"none for {timeout:g} s"
        errors.tell(f"{came} of {count} messages came; then {then}")
        raise typer.Exit(errors.FAILED)


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
