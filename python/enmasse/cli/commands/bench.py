"""`enmasse bench`: the load tool of the native core."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from enmasse.cli.options import Ca, Data, Durable, Mechanism, Output, OutputForm, Url

_LOAD = "Load"


class Mode(StrEnum):
    """What is measured."""

    LOAD = "load"
    IDLE = "idle"
    CONNECT = "connect"


def bench(
    address: Annotated[
        str, typer.Argument(help="The address; `%d` in it becomes 0, 1, .. over --addresses.")
    ] = "anycast",
    mode: Annotated[
        Mode,
        typer.Option(
            help="load: rates and latency; idle: memory of idle connections; connect: new ones."
        ),
    ] = Mode.LOAD,
    duration: Annotated[
        float, typer.Option("--duration", "-d", metavar="SECONDS", min=0.1, help="Measured time.")
    ] = 5.0,
    warmup: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Time before it.")] = 1.0,
    senders: Annotated[
        int, typer.Option(metavar="N", min=0, help="Sending links.", rich_help_panel=_LOAD)
    ] = 1,
    receivers: Annotated[
        int, typer.Option(metavar="N", min=0, help="Receiving links.", rich_help_panel=_LOAD)
    ] = 1,
    connections: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Connections, shared by the links; 0 is one a link.",
            rich_help_panel=_LOAD,
        ),
    ] = 0,
    addresses: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Addresses that `%d` makes.", rich_help_panel=_LOAD),
    ] = 1,
    multicast: Annotated[
        bool,
        typer.Option(
            "--multicast", help="Every receiver gets every message.", rich_help_panel=_LOAD
        ),
    ] = False,
    size: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Bytes of a body.", rich_help_panel=_LOAD)
    ] = 100,
    rate: Annotated[
        float,
        typer.Option(
            metavar="N",
            min=0,
            help="Messages a second in all, measuring latency; 0 is as fast as it goes.",
            rich_help_panel=_LOAD,
        ),
    ] = 0.0,
    settle: Annotated[
        bool, typer.Option("--settle", help="Send settled.", rich_help_panel=_LOAD)
    ] = False,
    durable: Durable = False,
    credit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Credit of receivers.", rich_help_panel=_LOAD)
    ] = 1000,
    pid: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PID",
            help="Server process whose CPU and memory are recorded; by default the platform's.",
        ),
    ] = None,
    url: Url = None,
    ca: Ca = None,
    mechanism: Mechanism = None,
    data: Data = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Measure throughput, and latency at a fixed rate, against any AMQP 1.0 server.

    At a fixed rate a latency counts from when a message was due, not from when it could be sent, so
    that a stalled server is not flattered.

    Examples:

      enmasse bench anycast --duration 10

      enmasse bench anycast --rate 50000 --size 1024 --output json

      enmasse bench --mode idle --connections 10000
    """
    from enmasse.cli.connect import Server
    from enmasse.cli.load import run
    from enmasse.cli.output import show

    server = Server(url, data, ca, mechanism)
    options: dict[str, Any] = {
        "mode": mode.value,
        "url": server.found_url(),
        "ca": str(ca) if ca else None,
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
        "mechanism": mechanism,
        "pids": pid or server.pids(),
    }
    report = run({name: value for name, value in options.items() if value is not None})
    show(report, output, lambda: "\n".join(lines(report)))


def lines(report: dict[str, Any], prefix: str = "") -> list[str]:
    """Return a report as lines of name and value."""
    from enmasse.cli.output import text

    found = []
    for name, value in report.items():
        if isinstance(value, dict):
            found += lines(value, f"{prefix}{name}.")
        else:
            found.append(f"{prefix + name:<32} {text(value)}".rstrip())
    return found
