"""`enmasse send`: send messages to an address."""

from typing import TYPE_CHECKING

import typer

from enmasse.cli.options.invocation import MessagingReporting
from enmasse.cli.options.shared import (
    Address,
    Annotation,
    Body,
    ContentType,
    Delay,
    Durable,
    Group,
    Priority,
    Property,
    Rate,
    ReplyTo,
    SendCount,
    SendTimeout,
    Settled,
    Size,
    Subject,
    Ttl,
)

if TYPE_CHECKING:
    from enmasse.cli.messaging.transfer import Tally


def send(
    address: Address,
    body: Body = None,
    size: Size = None,
    count: SendCount = None,
    rate: Rate = None,
    timeout: SendTimeout = None,
    properties: Property = None,
    durable: Durable = False,
    priority: Priority = None,
    ttl: Ttl = None,
    delay: Delay = None,
    group: Group = None,
    subject: Subject = None,
    reply_to: ReplyTo = None,
    content_type: ContentType = None,
    annotation: Annotation = None,
    settle: Settled = False,
    *,
    call: MessagingReporting,
) -> None:
    """Send messages and report their outcomes.

    A direct address accepts messages only while it has a receiver; until then the command waits.
    The exit code is 1 if any message was not accepted.

    Examples:

      enmasse send orders --body "one espresso"

      enmasse send orders --count 100000 --size 1024 --rate 5000

      seq 10 | enmasse send orders --body -

      enmasse send orders --body '{"cups": 1}' --content-type application/json --ttl 2m
    """
    import asyncio

    from enmasse.base.clock import SystemClock
    from enmasse.cli.messaging import transfer
    from enmasse.cli.messaging.messages import Template
    from enmasse.cli.output.printing import progress, show
    from enmasse.messaging import Properties

    standard = Properties(
        subject=subject, reply_to=reply_to, content_type=content_type, group_id=group
    )
    template = Template.of(
        properties,
        durable,
        priority=priority,
        ttl=ttl,
        delay=delay,
        annotations=annotation,
        standard=standard,
    )
    messages = template.messages(body, size, count)
    # The number of lines on stdin is unknown, so progress has no total.
    expected = count or (None if body == "-" else 1)

    async def run() -> "Tally":
        async with call.connection().session(timeout) as session:
            with progress("sent", expected) as step:
                pace = transfer.Pace(SystemClock(), rate, timeout)
                return await transfer.send(
                    session, address, messages, pace, settled=settle, step=step
                )

    tally = asyncio.run(run())
    show({"sent": tally.total, **tally.outcomes}, call.output, lambda: tally.summary)
    if not tally.all_accepted:
        raise typer.Exit(1)
