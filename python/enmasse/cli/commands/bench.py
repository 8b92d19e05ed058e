"""`enmasse bench`: the load tool of the native core."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from enmasse.cli.options.invocation import MessagingReporting
from enmasse.cli.options.shared import Durable

_LOAD = "Load"


class Mode(StrEnum):
    """The measurement."""

    LOAD = "load"
    IDLE = "idle"
    CONNECT = "connect"


def _load(help: str, metavar: str, least: int) -> Any:
    """Return an option of the load with a minimum value."""
    return typer.Option(metavar=metavar, min=least, help=help, rich_help_panel=_LOAD)


Addresses = Annotated[
    str, typer.Argument(help=("Address; `%d` expands to 0, 1, ... up to --addresses."))
]
Modes = Annotated[
    Mode,
    typer.Option(
        help="load: rates and latency; idle: memory of idle connections; connect: new ones."
    ),
]
Duration = Annotated[
    float,
    typer.Option(
        "--duration", "-d", metavar="SECONDS", min=0.1, help="Duration of the measurement."
    ),
]
Warmup = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="Warm-up before the measurement.")
]
Senders = Annotated[int, _load("Sending links.", "N", 0)]
Receivers = Annotated[int, _load("Receiving links.", "N", 0)]
Connections = Annotated[
    int, _load("Connections shared by the links; 0 means one per link.", "N", 0)
]
AddressCount = Annotated[int, _load("Number of addresses for `%d`.", "N", 1)]
Multicast = Annotated[
    bool,
    typer.Option(
        "--multicast", help="Every receiver receives every message.", rich_help_panel=_LOAD
    ),
]
BodySize = Annotated[int, _load("Bytes of a body.", "BYTES", 1)]
TotalRate = Annotated[
    float,
    _load("Total messages per second, measuring latency; 0 means unlimited.", "N", 0),
]
Settled = Annotated[bool, typer.Option("--settle", help="Send settled.", rich_help_panel=_LOAD)]
Credit = Annotated[int, _load("Credit of receivers.", "N", 1)]
Pids = Annotated[
    list[int] | None,
    typer.Option(
        metavar="PID",
        help="Server process whose CPU and memory are recorded; by default the platform's.",
    ),
]


def bench(
    address: Addresses = "anycast",
    mode: Modes = Mode.LOAD,
    duration: Duration = 5.0,
    warmup: Warmup = 1.0,
    senders: Senders = 1,
    receivers: Receivers = 1,
    connections: Connections = 0,
    addresses: AddressCount = 1,
    multicast: Multicast = False,
    size: BodySize = 100,
    rate: TotalRate = 0.0,
    settle: Settled = False,
    durable: Durable = False,
    credit: Credit = 1000,
    pid: Pids = None,
    *,
    call: MessagingReporting,
) -> None:
    """Measure throughput, and latency at a fixed rate, against any AMQP 1.0 server.

    At a fixed rate, latency counts from the scheduled time of a message, not from its sending, so
    the result includes the delay of a stalled server.

    Examples:

      enmasse bench anycast --duration 10

      enmasse bench anycast --rate 50000 --size 1024 --output json

      enmasse bench --mode idle --connections 10000
    """
    from enmasse.cli.messaging.load import run
    from enmasse.cli.output.printing import show

    server = call.connection()
    options: dict[str, Any] = {
        "mode": mode.value,
        "url": server.found_url(),
        "ca": str(call.ca) if call.ca else None,
        "address": address,
        "addresses": addresses,
        "senders": senders,
        "receivers": receivers,
        "connections": connections,
        "multicast": multicast,
        "body": size,
        "presettled": settle,
        "durable": durable,
        "credit": credit,
        "rate": rate,
        "duration": duration,
        "warmup": warmup,
        "mechanism": call.mechanism,
        "hostname": call.space,
        "pids": pid or server.pids(),
    }
    # Options without a value keep the defaults of the load tool.
    report = run({name: value for name, value in options.items() if value is not None})
    show(report, call.output, lambda: "\n".join(lines(report)))


def lines(report: dict[str, Any], prefix: str = "") -> list[str]:
    """Return a report as lines of name and value."""
    from enmasse.cli.output.printing import text

    found = []
    for name, value in report.items():
        if isinstance(value, dict):
            found += lines(value, f"{prefix}{name}.")
        else:
            found.append(f"{prefix + name:<32} {text(value)}".rstrip())
    return found
