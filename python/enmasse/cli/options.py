"""Options that several commands have, declared once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """How a command prints what it has to show."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="ENMASSE_DATA",
        help="Data folder of the platform; it tells where the platform listens.",
    ),
]
ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="ENMASSE_SERVER",
        help="HTTP API of a platform elsewhere, for example http://127.0.0.1:8080.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="ENMASSE_TOKEN_FILE",
        help="File with the API's token; by default `token` of the data folder.",
    ),
]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Form of what is printed.")]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NS", help="Namespace of the resource.")
]
Space = Annotated[
    str, typer.Option("--space", "-s", metavar="SPACE", help="Address space it belongs to.")
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Return when it is ready, or at once.")
]

Address = Annotated[str, typer.Argument(help="The address, for example orders.")]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="ENMASSE_URL",
        help="Any AMQP 1.0 server: amqp[s]|ws[s]://[USER:PASSWORD@]HOST[:PORT]; by default the"
        " platform on this machine.",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="CA to trust for amqps and wss; tls/ca.crt of the platform."),
]
Mechanism = Annotated[
    str | None, typer.Option(metavar="NAME", help="The only SASL mechanism to use.")
]
Body = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Body as text; `-` makes each line of stdin a message."),
]
Size = Annotated[
    int | None, typer.Option(metavar="BYTES", min=0, help="Body of so many bytes, instead of text.")
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--properties",
        "-p",
        metavar="NAME=VALUE",
        help="Application property; repeatable. Numbers, true and false are such.",
    ),
]
Durable = Annotated[bool, typer.Option("--durable", help="Mark messages as durable.")]
