"""`enmasse up`: run the platform."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from enmasse.base.settings import Settings
    from enmasse.cli.launcher import Ready


class Output(StrEnum):
    """How readiness is told."""

    TEXT = "text"
    JSON = "json"


_PORT = "[PORT|0|off]"
_LISTENERS = "Listeners"


def up(
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Resources to add or change; `-` is standard input.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder of all that is kept.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings as a TOML file.")
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How readiness is told on stdout.")
    ] = Output.TEXT,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on.",
            show_default="127.0.0.1",
            rich_help_panel=_LISTENERS,
        ),
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure",
            help="Allow spaces without authentication, and passwords"
            " without TLS, beyond this machine.",
            rich_help_panel=_LISTENERS,
        ),
    ] = None,
    amqp_port: Annotated[
        str | None,
        typer.Option(metavar=_PORT, help="AMQP.", show_default="5672", rich_help_panel=_LISTENERS),
    ] = None,
    amqps_port: Annotated[
        str | None,
        typer.Option(
            metavar=_PORT, help="AMQP over TLS.", show_default="5671", rich_help_panel=_LISTENERS
        ),
    ] = None,
    ws_port: Annotated[
        str | None,
        typer.Option(
            metavar=_PORT,
            help="AMQP over WebSocket.",
            show_default="8081",
            rich_help_panel=_LISTENERS,
        ),
    ] = None,
    wss_port: Annotated[
        str | None,
        typer.Option(
            metavar=_PORT,
            help="AMQP over WebSocket over TLS.",
            show_default="8443",
            rich_help_panel=_LISTENERS,
        ),
    ] = None,
    http_port: Annotated[
        str | None,
        typer.Option(
            metavar=_PORT,
            help="HTTP API, metrics, health.",
            show_default="8080",
            rich_help_panel=_LISTENERS,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Threads that carry messages; 0 is one a core.")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default="info"),
    ] = None,
) -> None:
    """Run the platform in this process until Ctrl-C.

    With an empty data folder and no file there is an address space [bold]default[/bold] with the
    addresses [bold]anycast[/bold] and [bold]multicast[/bold], open to this machine. Each option is
    also a variable: ENMASSE_AMQP_PORT for --amqp-port.

    Examples:

      enmasse up

      enmasse up -f addresses.yaml --data ./data --amqp-port 0 --output json
    """
    options: dict[str, object] = {
        "data": data,
        "host": host,
        "insecure": insecure,
        "amqp_port": amqp_port,
        "amqps_port": amqps_port,
        "ws_port": ws_port,
        "wss_port": wss_port,
        "http_port": http_port,
        "workers": workers,
        "log_level": log_level,
    }
    _run(options, file or [], config, output)


def _run(options: dict[str, object], files: list[str], config: Path | None, output: Output) -> None:
    import asyncio

    from enmasse.base import log
    from enmasse.base.errors import EnMasseError
    from enmasse.base.settings import load
    from enmasse.cli import errors
    from enmasse.cli.launcher import serve

    def announce(ready: "Ready") -> None:
        if output is Output.JSON:
            print(json.dumps(ready.document()), flush=True)
        else:
            print(welcome(settings, ready), flush=True)

    try:
        settings, _ = load(options, os.environ, config)
        log.configure(settings.log_level)
        asyncio.run(serve(settings, files, announce))
    except EnMasseError as error:
        errors.say(error)
        _end(errors.FAILED)
    _end(0)


def _end(code: int) -> NoReturn:
    """End the process, in which all is closed and written.

    To take a thousand modules apart as well costs a busy machine seconds of the five that stopping
    may take.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def welcome(settings: "Settings", ready: "Ready") -> str:
    """Return what a person reads once the platform is up."""
    from enmasse.cli import network

    places = "\n".join(
        f"  {name:6} {network.url(name, *place)}" for name, place in ready.endpoints.items()
    )
    folder = "" if settings.data == _default_data() else f" --data {settings.data}"
    return f"""EnMasse is up (process {ready.pid}). Ctrl-C stops it.

{places}
  data   {settings.data}

Try, each in a terminal of its own:
  enmasse receive anycast{folder}
  enmasse send anycast --body hello{folder}
  enmasse get addresses{folder}
"""


def _default_data() -> Path:
    from enmasse.base.data_dir import default_data_dir

    return default_data_dir()
