"""`enmasse request`: send requests and print the replies."""

from typing import Annotated

import typer

from enmasse.cli.commands.receive import written
from enmasse.cli.options.invocation import Messaging
from enmasse.cli.options.shared import (
    Address,
    Body,
    Durable,
    Form,
    MessageForm,
    Property,
    ReplyTimeout,
    Size,
)


def request(
    address: Address,
    body: Body = None,
    size: Size = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=1, help="Number of requests.")
    ] = None,
    properties: Property = None,
    durable: Durable = False,
    timeout: ReplyTimeout = 30.0,
    output: MessageForm = Form.TEXT,
    *,
    call: Messaging,
) -> None:
    """Send requests one after the other and print the reply to each.

    Replies use a dynamic address of this command.

    Example: enmasse request orders --body "how many?"
    """
    import asyncio

    from enmasse.cli.messaging import transfer
    from enmasse.cli.messaging.messages import Template

    messages = Template.of(properties, durable).messages(body, size, count)

    async def run() -> None:
        async with call.connection().session(timeout) as session:
            await transfer.request(
                session,
                address,
                messages,
                lambda reply: print(written(reply, output), flush=True),
                timeout_s=timeout,
            )

    asyncio.run(run())
