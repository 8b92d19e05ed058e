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
    from enmasse.cli.serve.launcher import Ready


class Output(StrEnum):
    """Format of the readiness message."""

    TEXT = "text"
    JSON = "json"


_LISTENERS = "Listeners"


def _listener(help: str, default: int) -> Any:
    """Return the option of a listener's port."""
    return typer.Option(
        metavar="[PORT|0|off]", help=help, show_default=str(default), rich_help_panel=_LISTENERS
    )


def _number(help: str, default: int, metavar: str, allowed: range = range(1, 1 << 62)) -> Any:
    """Return the option of an integer setting."""
    return typer.Option(
        metavar=metavar,
        min=allowed.start,
        max=allowed.stop - 1,
        help=help,
        show_default=str(default),
    )


Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Resources to add or change; `-` is standard input."
    ),
]
Folder = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data folder.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="sqlite|URL",
        help="Store of resources: a file in the data folder, or"
        " postgresql://USER@HOST:PORT/DATABASE or kubernetes://CONTEXT, which several processes"
        " can share.",
        show_default="sqlite",
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings as a TOML file.")
]
ReadyFormat = Annotated[
    Output, typer.Option("--output", "-o", help="Format of the readiness message on stdout.")
]
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
        help="Comma-separated host names of the platform besides --host and the machine name,"
        " such as that of a load balancer. They select the default address space.",
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
WsPort = Annotated[str | None, _listener("AMQP or MQTT over WebSocket.", 8081)]
WssPort = Annotated[str | None, _listener("AMQP or MQTT over WebSocket over TLS.", 8443)]
MqttPort = Annotated[str | None, _listener("MQTT.", 1883)]
MqttsPort = Annotated[str | None, _listener("MQTT over TLS.", 8883)]
MqttSocket = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH|off",
        help="Unix socket for MQTT, for the user and the group of the process.",
        show_default="off",
        rich_help_panel=_LISTENERS,
    ),
]
ProxyProtocol = Annotated[
    str | None,
    typer.Option(
        metavar="NETWORKS",
        help="Comma-separated networks of proxies, such as 10.0.0.0/8. Their connections to the"
        " AMQP, MQTT and WebSocket ports must begin with a PROXY protocol header, version 2.",
        show_default="none",
        rich_help_panel=_LISTENERS,
    ),
]
WsOrigins = Annotated[
    str | None,
    typer.Option(
        metavar="ORIGINS",
        help="Comma-separated origins of web pages that may use WebSocket, in addition to the"
        " platform's own and route hosts, such as https://console.example.com; * allows any.",
        show_default="none",
        rich_help_panel=_LISTENERS,
    ),
]
HttpPort = Annotated[
    str | None, _listener("HTTP API, metrics and health without TLS, for this machine.", 8080)
]
HttpsPort = Annotated[str | None, _listener("HTTP API over TLS, for kubectl.", 6443)]
Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Worker threads; 0 means one per core.")
]
MaxFrameSize = Annotated[
    int | None, _number("Largest AMQP frame accepted.", 131_072, "BYTES", range(512, (1 << 20) + 1))
]
LinkCredit = Annotated[
    int | None,
    _number(
        "Credit of a sender, unless the infra config of its space sets linkCapacity.",
        1000,
        "N",
        range(1, 100_001),
    ),
]
IdleTimeout = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS|off",
        help="Idle time-out after which the node closes a silent connection.",
        show_default="60",
    ),
]
ReceiveMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE|SHARE",
        help="Memory for received messages that are not stored yet, such as 2GiB or 25%.",
        show_default="25%",
    ),
]
MulticastSettleTimeout = Annotated[
    int | None,
    _number(
        "How long a sender to a multicast address waits for a consumer that leaves its copy"
        " unsettled.",
        1000,
        "MS",
        range(100, 3_600_001),
    ),
]
MqttHold = Annotated[
    int | None,
    _number(
        "How long publications of an MQTT client wait for a full address before they are refused.",
        10_000,
        "MS",
        range(100, 3_600_001),
    ),
]
NamespaceResources = Annotated[
    int | None, _number("Maximum resources of each kind in a namespace.", 200_000, "N")
]
NamespaceDataBytes = Annotated[
    int | None,
    _number(
        "Maximum size of all Secrets of a namespace, and of all its ConfigMaps.",
        67_108_864,
        "BYTES",
    ),
]
NamespacePlans = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Comma-separated space plans that a namespace without the annotation enmasse.io/plans"
        " may choose; * allows any.",
        show_default="*",
    ),
]
LeaderGrace = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS|off",
        help="How long a leader keeps serving after its lease while the store is unreachable.",
        show_default="300",
    ),
]
NodeName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of this process among those of its store.",
        show_default="that of the data folder, at first the host name",
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Zone of this process, such as a data centre or a rack.",
        show_default="none",
    ),
]
_CONSOLE = "Console and identity provider"


def _identity(metavar: str, help: str, default: str | None = None) -> Any:
    """Return the option of a setting of the console."""
    return typer.Option(
        metavar=metavar, help=help, show_default=default or False, rich_help_panel=_CONSOLE
    )


ConsoleIdle = Annotated[
    int | None,
    _identity("SECONDS", "Idle time after which a session of the console ends.", "3600"),
]
ConsoleSession = Annotated[
    int | None, _identity("SECONDS", "Maximum duration of a session of the console.", "43200")
]
OidcSession = Annotated[
    int | None,
    _identity(
        "SECONDS", "Maximum duration of a session by the identity provider, with its roles.", "3600"
    ),
]
ConsoleUrl = Annotated[
    str | None,
    _identity("URL", "URL of the console for the identity provider, if a proxy serves it."),
]
PrometheusUrl = Annotated[
    str | None,
    _identity("URL", "Prometheus that the console reads past values from.", "the own history"),
]
PrometheusToken = Annotated[
    Path | None, _identity("FILE", "File with the bearer token for Prometheus, if it needs one.")
]
PrometheusCa = Annotated[Path | None, _identity("FILE", "CA of Prometheus, as PEM.")]
OidcIssuer = Annotated[
    str | None,
    _identity("URL", "Identity provider (OpenID Connect) for people and callers of the API."),
]
OidcClient = Annotated[str | None, _identity("ID", "Client at the identity provider.", "enmasse")]
OidcClientSecret = Annotated[
    Path | None, _identity("FILE", "File with the secret of that client, if it has one.")
]
OidcAudience = Annotated[
    str | None, _identity("NAME", "Required audience of access tokens.", "the client")
]
OidcUser = Annotated[
    str | None, _identity("CLAIM", "Claim with the user name.", "preferred_username")
]
OidcRoles = Annotated[
    str | None,
    _identity("CLAIM", "Claim with roles: service-admin, tenant-edit, tenant-view:NS.", "groups"),
]
OidcCa = Annotated[Path | None, _identity("FILE", "CA of the identity provider, as PEM.")]
DiscardUnnamed = Annotated[
    bool | None,
    typer.Option(
        "--discard-unnamed",
        help="Delete stored messages whose address is unknown because its declaration is damaged.",
    ),
]
UpgradeData = Annotated[
    bool,
    typer.Option(
        "--upgrade-data",
        help="Convert a data folder of an older version. Only restoring a backup undoes it.",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default="info"),
]


_NO_SETTINGS = ("file", "config", "output", "upgrade_data")
"""Parameters of `up` that are no settings; every other one is the setting of that name."""


def up(
    file: Files = None,
    data: Folder = None,
    store: Store = None,
    config: Config = None,
    output: ReadyFormat = Output.TEXT,
    host: Host = None,
    host_names: HostNames = None,
    insecure: Insecure = None,
    amqp_port: AmqpPort = None,
    amqps_port: AmqpsPort = None,
    ws_port: WsPort = None,
    wss_port: WssPort = None,
    mqtt_port: MqttPort = None,
    mqtts_port: MqttsPort = None,
    mqtt_socket: MqttSocket = None,
    proxy_protocol: ProxyProtocol = None,
    ws_origins: WsOrigins = None,
    http_port: HttpPort = None,
    https_port: HttpsPort = None,
    workers: Workers = None,
    max_frame_size: MaxFrameSize = None,
    link_credit: LinkCredit = None,
    idle_timeout_s: IdleTimeout = None,
    receive_memory: ReceiveMemory = None,
    discard_unnamed: DiscardUnnamed = None,
    multicast_settle_timeout_ms: MulticastSettleTimeout = None,
    mqtt_hold_ms: MqttHold = None,
    namespace_resources_max: NamespaceResources = None,
    namespace_data_bytes_max: NamespaceDataBytes = None,
    namespace_plans: NamespacePlans = None,
    leader_grace_s: LeaderGrace = None,
    node_name: NodeName = None,
    zone: Zone = None,
    console_idle_s: ConsoleIdle = None,
    console_session_s: ConsoleSession = None,
    oidc_session_s: OidcSession = None,
    console_url: ConsoleUrl = None,
    prometheus: PrometheusUrl = None,
    prometheus_token_file: PrometheusToken = None,
    prometheus_ca_file: PrometheusCa = None,
    oidc_issuer: OidcIssuer = None,
    oidc_client_id: OidcClient = None,
    oidc_client_secret_file: OidcClientSecret = None,
    oidc_audience: OidcAudience = None,
    oidc_user_claim: OidcUser = None,
    oidc_roles_claim: OidcRoles = None,
    oidc_ca_file: OidcCa = None,
    log_level: LogLevel = None,
    upgrade_data: UpgradeData = False,
) -> None:
    """Run the platform in this process until Ctrl-C.

    With an empty data folder and no file there is an address space [bold]default[/bold] with an
    address of each type, named after it, open to this machine. Each option is also an environment
    variable: ENMASSE_AMQP_PORT for --amqp-port.

    Examples:

      enmasse up

      enmasse up -f addresses.yaml --data ./data --amqp-port 0 --output json
    """
    # None: without the option, the environment variable, the file or the default applies.
    options = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
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

    # Objects created at start are permanent: repeated garbage collection takes a sixth of the
    # start.
    gc.disable()
    from enmasse.base import log
    from enmasse.base.errors import EnMasseError
    from enmasse.base.settings import load
    from enmasse.cli import errors
    from enmasse.cli.serve.launcher import serve

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
            errors.write_line(f"starting, with the data in {settings.data}")
        asyncio.run(serve(settings, files, announce, upgrade_data=upgrade_data))
    except EnMasseError as error:
        errors.report(error)
        _end(errors.FAILED)
    _end(0)


def _end(code: int) -> NoReturn:
    """End the process after everything is closed and written.

    Unloading a thousand modules would cost a busy machine seconds of the five that stopping may
    take.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def welcome(settings: "Settings", ready: "Ready") -> str:
    """Return the readiness message for people."""
    from enmasse.cli.connect import network
    from enmasse.cli.serve import hints

    places = "\n".join(
        f"  {name:6} {network.url(name, *place)}" for name, place in ready.endpoints.items()
    )
    places += "".join(f"\n  {name:6} unix:{path}" for name, path in ready.sockets.items())
    if (page := hints.console_url(ready.endpoints)) is not None:
        places += f"\n\n  console {page} (`enmasse console` opens it and logs you in)"
    waits_for_users = ready.suggested_address is None and not ready.has_users
    notes = ""
    if settings.host in network.WILDCARDS:
        name = network.reachable_name(settings.host)
        notes += f"\nOther machines reach it as {name}, at the same ports."
    if waits_for_users:
        notes += "\nNo client can log in yet: no user is declared."
    program = Path(sys.argv[0])
    next_ = hints.next_commands(
        ready.suggested_address, settings.data, program, waits_for_users=waits_for_users
    )
    return f"""EnMasse is up (process {ready.pid}). Ctrl-C stops it.

{places}
  data   {settings.data}
{notes}
{next_}"""
