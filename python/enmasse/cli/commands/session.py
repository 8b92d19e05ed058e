"""`enmasse session`: MQTT sessions."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Group, Spaced, SpacedReporting
from enmasse.engines.protocol import SessionKind

app = Group(no_args_is_help=True, help="MQTT sessions, also those of AMQP clients.")


@app.command("list")
def list_(*, call: SpacedReporting) -> None:
    """Show the sessions of MQTT clients, connected or not, and the subscriptions and wills of AMQP
    clients. JSON and YAML have their filters.

    Example: enmasse session list --output json
    """
    from enmasse.cli.output.printing import show
    from enmasse.cli.output.retained import sessions

    with call.api() as api:
        items = list(api.mqtt_sessions(call.namespace, call.space))
    show({"items": items}, call.output, lambda: sessions(items))


@app.command()
def end(
    client_id: Annotated[
        str,
        typer.Argument(
            metavar="CLIENT_ID",
            help="Client id; the name of a subscription; the container of a client with a will.",
        ),
    ],
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="User of the client; default: anonymous."),
    ] = None,
    kind: Annotated[
        SessionKind,
        typer.Option(help="An MQTT client, or the subscription or will of an AMQP client."),
    ] = SessionKind.CLIENT,
    link: Annotated[
        str | None, typer.Option(metavar="NAME", help="Link with the will, for `--kind will`.")
    ] = None,
    *,
    call: Spaced,
) -> None:
    """End a session with its subscriptions and the messages that wait in them.

    A connected client is disconnected (0x98); a receiver of a subscription is detached. The will
    of the session is published.

    Example: enmasse session end sensor-7 --user sensors
    """
    name = {"clientId": client_id, "kind": kind, "user": user, "link": link}
    with call.api() as api:
        api.end_mqtt_session(
            call.namespace,
            call.space,
            {field: value for field, value in name.items() if value is not None},
        )
    print(f"session {client_id} ended")
