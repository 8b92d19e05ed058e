"""`enmasse up`: run the platform."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from enmasse.base.settings import Settings
    from enmasse.cli.launcher import Ready


class Output(StrEnum):
    """How readiness is told."""

    TEXT = "text"
    JSON = "json"


_LISTENERS = "Listeners"


def _listener(help: str, default: int) -> Any:
    """The option of a listener's port."""
    return typer.Option(
        metavar="[PORT|0|off]", help=help, show_default=str(default), rich_help_panel=_LISTENERS
    )


Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Resources to add or change; `-` is standard input."
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of all that is kept.")
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="sqlite|URL",
        help="Where resources are: a file in the data folder, or"
        " postgresql://USER@HOST:PORT/DATABASE or kubernetes://CONTEXT, which several processes"
        " can use.",
        show_default="sqlite",
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings as a TOML file.")
]
Told = Annotated[Output, typer.Option("--output", "-o", help="How readiness is told on stdout.")]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on.",
        show_default="127.0.0.1",
        rich_help_panel=_LISTENERS,
    ),
]
HostNames = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Host names of the platform, by commas, beside --host and that of the machine, such as"
        " that of a load balancer. Clients that use one name no address space by it.",
        rich_help_panel=_LISTENERS,
    ),
]
Insecure = Annotated[
    bool | None,
    typer.Option(
        "--insecure",
        help="Allow spaces without authentication, and passwords and the HTTP API without TLS,"
        " beyond this machine.",
        rich_help_panel=_LISTENERS,
    ),
]
AmqpPort = Annotated[str | None, _listener("AMQP.", 5672)]
AmqpsPort = Annotated[str | None, _listener("AMQP over TLS.", 5671)]
WsPort = Annotated[str | None, _listener("AMQP over WebSocket.", 8081)]
WssPort = Annotated[str | None, _listener("AMQP over WebSocket over TLS.", 8443)]
WsOrigins = Annotated[
    str | None,
    typer.Option(
        metavar="ORIGINS",
        help="Web pages that may use WebSocket besides the platform's own and those of route hosts,"
        " by commas, such as https://console.example.com; *: any.",
        show_default="none",
        rich_help_panel=_LISTENERS,
    ),
]
HttpPort = Annotated[
    str | None, _listener("HTTP API, metrics, health; in clear, for this machine.", 8080)
]
HttpsPort = Annotated[str | None, _listener("HTTP API over TLS, for kubectl.", 6443)]
Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Threads that carry messages; 0 is one a core.")
]
MaxFrameSize = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES", min=512, max=1 << 20, help="Largest AMQP frame.", show_default="131072"
    ),
]
LinkCredit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=100_000,
        help="Messages that a sender may have on the way, where no infra config says.",
        show_default="1000",
    ),
]
IdleTimeout = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS|off",
        help="Silence after which a client counts as gone.",
        show_default="60",
    ),
]
MulticastSettleTimeout = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        min=100,
        max=3_600_000,
        help="How long senders to a multicast address wait for a consumer that leaves its copy"
        " unsettled.",
        show_default="1000",
    ),
]
NamespaceResources = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Resources of each kind that a namespace may hold.",
        show_default="200000",
    ),
]
NamespaceDataBytes = Annotated[
    int | None,
    typer.Option(
        metavar="BYTES",
        min=1,
        help="Bytes that all Secrets, and all ConfigMaps, of a namespace may hold.",
        show_default="67108864",
    ),
]
NamespacePlans = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Plans of address spaces that a namespace may choose where its annotation"
        " enmasse.io/plans does not say, by commas; *: any.",
        show_default="*",
    ),
]
LeaderGrace = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS|off",
        help="How long a leader serves after its lease without a word from the store it shares.",
        show_default="300",
    ),
]
UpgradeData = Annotated[
    bool,
    typer.Option(
        "--upgrade-data",
        help="Convert a data folder of an older version. Only a backup leads back.",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default="info"),
]


def up(
    file: Files = None,
    data: Folder = None,
    store: Store = None,
    config: Config = None,
    output: Told = Output.TEXT,
    host: Host = None,
    host_names: HostNames = None,
    insecure: Insecure = None,
    amqp_port: AmqpPort = None,
    amqps_port: AmqpsPort = None,
    ws_port: WsPort = None,
    wss_port: WssPort = None,
    ws_origins: WsOrigins = None,
    http_port: HttpPort = None,
    https_port: HttpsPort = None,
    workers: Workers = None,
    max_frame_size: MaxFrameSize = None,
    link_credit: LinkCredit = None,
    idle_timeout_s: IdleTimeout = None,
    multicast_settle_timeout_ms: MulticastSettleTimeout = None,
    namespace_resources_max: NamespaceResources = None,
    namespace_data_bytes_max: NamespaceDataBytes = None,
    namespace_plans: NamespacePlans = None,
    leader_grace_s: LeaderGrace = None,
    log_level: LogLevel = None,
    upgrade_data: UpgradeData = False,
) -> None:
    """Run the platform in this process until Ctrl-C.

    With an empty data folder and no file there is an address space [bold]default[/bold] with an
    address of each type, named after it, open to this machine. Each option is also a variable:
    ENMASSE_AMQP_PORT for --amqp-port.

    Examples:

      enmasse up

      enmasse up -f addresses.yaml --data ./data --amqp-port 0 --output json
    """
    options: dict[str, object] = {
        "data": data,
        "store": store,
        "host": host,
        "host_names": host_names,
        "insecure": insecure,
        "amqp_port": amqp_port,
        "amqps_port": amqps_port,
        "ws_port": ws_port,
        "wss_port": wss_port,
        "ws_origins": ws_origins,
        "http_port": http_port,
        "https_port": https_port,
        "workers": workers,
        "max_frame_size": max_frame_size,
        "link_credit": link_credit,
        "idle_timeout_s": idle_timeout_s,
        "multicast_settle_timeout_ms": multicast_settle_timeout_ms,
        "namespace_resources_max": namespace_resources_max,
        "namespace_data_bytes_max": namespace_data_bytes_max,
        "namespace_plans": namespace_plans,
        "leader_grace_s": leader_grace_s,
        "log_level": log_level,
    }
    _run(options, file or [], config, output, upgrade_data=upgrade_data)


def _run(
    options: dict[str, object],
    files: list[str],
    config: Path | None,
    output: Output,
    *,
    upgrade_data: bool,
) -> None:
    import asyncio
    import gc

    # What a start makes stays: to look through it again and again for what does not is a sixth of
    # the start.
    gc.disable()
    from enmasse.base import log
    from enmasse.base.errors import EnMasseError
    from enmasse.base.settings import load
    from enmasse.cli import errors
    from enmasse.cli.launcher import serve

    def announce(ready: "Ready") -> None:
        gc.freeze()
        gc.enable()
        if output is Output.JSON:
            print(json.dumps(ready.document()), flush=True)
        else:
            print(welcome(settings, ready), flush=True)

    try:
        settings, _ = load(options, os.environ, config)
        log.configure(settings.log_level)
        if output is Output.TEXT and sys.stderr.isatty():
            errors.tell(f"starting, with the data in {settings.data}")
        asyncio.run(serve(settings, files, announce, upgrade_data=upgrade_data))
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
    from enmasse.cli import hints, network

    places = "\n".join(
        f"  {name:6} {network.url(name, *place)}" for name, place in ready.endpoints.items()
    )
    waits_for_users = ready.meeting is None and not ready.has_users
    notes = ""
    if settings.host in network.WILDCARDS:
        name = network.reachable_name(settings.host)
        notes += f"\nOther machines reach it as {name}, at the same ports."
    if waits_for_users:
        notes += "\nNobody can log in yet: no user is declared."
    program = Path(sys.argv[0])
    next_ = hints.next_commands(
        ready.meeting, settings.data, program, waits_for_users=waits_for_users
    )
    return f"""EnMasse is up (process {ready.pid}). Ctrl-C stops it.

{places}
  data   {settings.data}
{notes}
{next_}"""
