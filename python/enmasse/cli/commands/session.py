"""`enmasse session`: sessions of MQTT clients."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Group, Spaced, SpacedReporting

app = Group(no_args_is_help=True, help="Sessions of MQTT clients.")


@app.command("list")
def list_(*, call: SpacedReporting) -> None:
    """Show the sessions of MQTT clients, connected or not. JSON and YAML have their filters.

    Example: enmasse session list --output json
    """
    from enmasse.cli.output.printing import show
    from enmasse.cli.output.retained import sessions

    with call.api() as api:
        items = list(api.mqtt_sessions(call.namespace, call.space))
    show({"items": items}, call.output, lambda: sessions(items))


@app.command()
def end(
    client_id: Annotated[str, typer.Argument(metavar="CLIENT_ID", help="Client id.")],
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="User of the client; without it anonymous."),
    ] = None,
    *,
    call: Spaced,
) -> None:
    """End a session with its subscriptions and the messages that wait in them.

    A connected client is disconnected (0x98). The will of the session is published.

    Example: enmasse session end sensor-7 --user sensors
    """
    with call.api() as api:
        api.end_mqtt_session(call.namespace, call.space, client_id, user)
    print(f"session {client_id} ended")
