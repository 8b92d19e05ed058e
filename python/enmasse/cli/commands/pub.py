"""`enmasse pub`: publish messages over MQTT."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import DevicesReporting
from enmasse.cli.options.shared import (
    Body,
    ContentType,
    Property,
    QualityOfService,
    Rate,
    ReplyTo,
    SendCount,
    SendTimeout,
    Size,
    Topic,
    Ttl,
)


def pub(
    topic: Topic,
    body: Body = None,
    size: Size = None,
    count: SendCount = None,
    rate: Rate = None,
    timeout: SendTimeout = None,
    qos: QualityOfService = 1,
    retain: Annotated[
        bool, typer.Option("--retain", help="Retain the message as the last one of its topic.")
    ] = False,
    properties: Property = None,
    ttl: Ttl = None,
    reply_to: ReplyTo = None,
    content_type: ContentType = None,
    *,
    call: DevicesReporting,
) -> None:
    """Publish messages over MQTT 5.0, as a device does, and report their acknowledgements.

    The exit code is 1 if any message was refused. QoS 0 has no acknowledgements.

    Examples:

      enmasse pub sensors/7/temp --body 21.5

      enmasse pub sensors/7/temp --body 21.5 --retain

      seq 10 | enmasse pub orders --body - --qos 2
    """
    import math
    import time

    from enmasse.base.clock import SystemClock
    from enmasse.cli.messaging import mqtt
    from enmasse.cli.messaging.messages import assigned, bodies
    from enmasse.cli.output.printing import progress, show
    from enmasse.cli.resources.targets import seconds

    named = [assigned(one, "--properties") for one in properties or ()]
    described = mqtt.publication_properties(
        [(name, str(value)) for name, value in named],
        expiry_s=None if ttl is None else math.ceil(seconds(ttl, "--ttl")),
        content_type=content_type,
        response_topic=reply_to,
    )
    sent = 0
    with (
        mqtt.session(call.broker()) as session,
        progress("published", count or (None if body == "-" else 1)) as step,
    ):
        clock = SystemClock()
        started_s = clock.monotonic()
        for payload in bodies(body, size, count):
            if rate:
                time.sleep(max(0.0, started_s + sent / rate - clock.monotonic()))
            encoded = payload if isinstance(payload, bytes) else payload.encode()
            session.publish(topic, encoded, qos, described, retain=retain)
            sent += 1
            step()
        tally = session.finish(sent, timeout)
    show({"sent": tally.total, **tally.outcomes}, call.output, lambda: tally.summary)
    if not tally.all_accepted:
        raise typer.Exit(1)
