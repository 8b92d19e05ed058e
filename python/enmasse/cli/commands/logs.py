"""`enmasse logs`: the log records of the platform."""

import json
from typing import Annotated

import typer

from enmasse.cli.options.invocation import Invocation
from enmasse.cli.options.shared import Form

LEVELS = ("debug", "info", "warning", "error", "critical")
_FIRST = ("timestamp", "level", "event", "logger")


def logs(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow new records until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of latest records to begin with.")
    ] = 100,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Minimum severity: info, warning or error.")
    ] = "debug",
    output: Annotated[Form, typer.Option("--output", "-o", help="Text, or JSON lines.")] = (
        Form.TEXT
    ),
    *,
    call: Invocation,
) -> None:
    """Show the latest records of the platform's log. The platform keeps 2,000 in memory.

    For a platform in a Kubernetes cluster use `kubectl logs`.

    Example: enmasse logs --follow --level warning
    """
    if level not in LEVELS:
        raise typer.BadParameter(f"one of {', '.join(LEVELS)}", param_hint="--level")
    with call.api() as api:
        for line in api.logs(tail, follow=follow):
            record = json.loads(line)
            if LEVELS.index(record.get("level", "info")) >= LEVELS.index(level):
                print(line if output is Form.JSON else text(record), flush=True)


def text(record: dict[str, object]) -> str:
    """Return a record as one line: time, level, event, and the rest as NAME=VALUE."""
    rest = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in record.items()
        if name not in _FIRST
    )
    when, level, event = (str(record.get(name, "-")) for name in _FIRST[:3])
    return f"{when} {level:8} {event} {rest}".rstrip()
