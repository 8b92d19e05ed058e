"""`enmasse receive`: receive messages from an address."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from enmasse.cli.options.invocation import Messaging
from enmasse.cli.options.shared import (
    Address,
    Form,
    MessageForm,
    Offset,
    Partition,
    ReceiveCount,
    ReceiveTimeout,
)

if TYPE_CHECKING:
    from enmasse.messaging import Message, Outcome, Start

OFFSET_MAX = 2**64 - 1
"""Maximum offset: offsets are unsigned 64-bit numbers."""


class Settle(StrEnum):
    """The outcome that a receiver sends."""

    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    MODIFY = "modify"


def receive(
    address: Address,
    count: ReceiveCount = None,
    timeout: ReceiveTimeout = None,
    settle: Annotated[
        Settle, typer.Option(help="Outcome to send for each message.")
    ] = Settle.ACCEPT,
    offset: Offset = None,
    partition: Partition = None,
    output: MessageForm = Form.TEXT,
    *,
    call: Messaging,
) -> None:
    """Receive messages and print one per line.

    Without --count and --timeout it runs until Ctrl-C. The exit code is 1 if fewer than --count
    messages arrived.

    Examples:

      enmasse receive orders

      enmasse receive 'news/#' --count 10 --timeout 5 --output json

      enmasse receive events --offset first --partition 0

      enmasse receive events --offset 2026-01-31T08:00:00Z --timeout 5
    """
    import asyncio

    from enmasse.cli import errors
    from enmasse.cli.messaging import transfer

    start = _start(offset, partition)

    async def run() -> int:
        async with call.connection().session(timeout) as session:
            return await transfer.receive(
                session,
                address,
                lambda message: print(written(message, output), flush=True),
                count=count,
                outcome=_outcome(settle),
                timeout_s=timeout,
                start=start,
            )

    received = asyncio.run(run())
    if count is not None and received < count:
        then = "the server ended the link" if timeout is None else f"none for {timeout:g} s"
        errors.write_line(f"received {received} of {count} messages; then {then}")
        raise typer.Exit(errors.FAILED)


def written(message: "Message", form: Form) -> str:
    """Return a message as one line."""
    import json

    from enmasse.messaging import as_document

    if form is Form.JSON:
        return json.dumps(as_document(message), ensure_ascii=False)
    return message.text


def _start(offset: str | None, partition: int | None) -> "Start | None":
    """Return the start in a stream; None without options for one.

    Raises: typer.BadParameter for an invalid start.
    """
    from datetime import UTC, datetime

    from enmasse.messaging import Start

    if offset is None and partition is None:
        return None
    match offset:
        case None:
            return Start("next", partition)
        case "first" | "last" | "next":
            return Start(offset, partition)
    # Digits alone are an offset, never a year.
    if offset.isdecimal() and int(offset) <= OFFSET_MAX:
        return Start(int(offset), partition)
    try:
        moment = datetime.fromisoformat(offset)
    except ValueError:
        raise typer.BadParameter(
            f"{offset!r} is not first, last, next, an offset such as 17 or a time such as "
            "2026-01-31T08:00:00Z",
            param_hint="--offset",
        ) from None
    return Start(moment if moment.tzinfo else moment.replace(tzinfo=UTC), partition)


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
