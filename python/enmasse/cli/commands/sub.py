"""`enmasse sub`: receive messages over MQTT."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Devices
from enmasse.cli.options.shared import (
    Form,
    MessageForm,
    QualityOfService,
    ReceiveCount,
    ReceiveTimeout,
)


def sub(
    filters: Annotated[
        list[str],
        typer.Argument(
            metavar="FILTER...", help="Topic filters, such as sensors/+/temp or $share/a/news/#."
        ),
    ],
    qos: QualityOfService = 1,
    count: ReceiveCount = None,
    timeout: ReceiveTimeout = None,
    client_id: Annotated[
        str, typer.Option(metavar="ID", help="Client id.", show_default="chosen by the server")
    ] = "",
    session_expiry: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Keep the session for this time after the end, so that the next call with the"
            " same --client-id receives the messages published in the meantime.",
        ),
    ] = None,
    output: MessageForm = Form.TEXT,
    *,
    call: Devices,
) -> None:
    """Subscribe over MQTT 5.0, as a device does, and print one message per line.

    Without --count and --timeout it runs until Ctrl-C. The exit code is 1 if fewer than --count
    messages arrived. A message is acknowledged after it was printed.

    Examples:

      enmasse sub 'sensors/#'

      enmasse sub 'sensors/+/temp' --count 10 --output json

      enmasse sub 'alarms/#' --client-id desk --session-expiry 1h
    """
    import json
    import math

    from enmasse.cli import errors
    from enmasse.cli.messaging import mqtt
    from enmasse.cli.resources.targets import seconds

    expiry_s = (
        0 if session_expiry is None else math.ceil(seconds(session_expiry, "--session-expiry"))
    )
    if expiry_s and not client_id:
        raise typer.BadParameter("needs --client-id", param_hint="--session-expiry")
    received = 0
    with mqtt.session(call.broker(), client_id=client_id, session_expiry_s=expiry_s) as session:
        session.subscribe(filters, qos)
        for message in session.received(count, timeout):
            text = (
                json.dumps(mqtt.as_document(message), ensure_ascii=False)
                if output is Form.JSON
                else message.payload.decode(errors="replace")
            )
            print(text, flush=True)
            received += 1
    if count is not None and received < count:
        errors.write_line(f"received {received} of {count} messages; then none for {timeout:g} s")
        raise typer.Exit(errors.FAILED)
