"""`enmasse respond`: reply to requests."""

from typing import TYPE_CHECKING, Annotated

import typer

from enmasse.cli.options.invocation import MessagingReporting
from enmasse.cli.options.shared import Address, Durable, Property, ReceiveCount, Size

if TYPE_CHECKING:
    from enmasse.cli.messaging.transfer import Tally
    from enmasse.messaging import Message


def respond(
    address: Address,
    body: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reply body; by default the request body.")
    ] = None,
    size: Size = None,
    count: ReceiveCount = None,
    properties: Property = None,
    durable: Durable = False,
    *,
    call: MessagingReporting,
) -> None:
    """Reply to requests until Ctrl-C, or --count of them.

    A reply has the request's reply-to as address and its correlation id. A request without reply-to
    is accepted without a reply.

    Example: enmasse respond orders --body "three"
    """
    import asyncio

    from enmasse.cli.messaging import transfer
    from enmasse.cli.messaging.messages import Template
    from enmasse.cli.output.printing import show

    made = Template.of(properties, durable)

    def answer(request: "Message") -> "Message":
        if body is None and size is None:
            return made.around(request.body)
        return next(made.messages(body, size, 1))

    async def run() -> "Tally":
        async with call.connection().session() as session:
            return await transfer.respond(session, address, answer, count=count)

    tally = asyncio.run(run())
    show({"replies": tally.total, **tally.outcomes}, call.output, lambda: tally.summary)
    if not tally.all_accepted:
        raise typer.Exit(1)
