"""Options shared by several commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from enmasse.cli import completing


class Form(StrEnum):
    """Output format of a message."""

    TEXT = "text"
    JSON = "json"


class Output(StrEnum):
    """Output format of a command."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND[,KIND] [NAME...] | KIND/NAME...",
        help="address, addressspace, user, addressplan, ... by any of their names.",
        autocompletion=completing.words,
    ),
]
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
ListingForm = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        help="table, wide, name, json, yaml, jsonpath=TEMPLATE, jsonpath-file=FILE or"
        " custom-columns=HEADING:PATH,...",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="LABELS", help="Only what has labels: team=north."),
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--field-selector", metavar="FIELDS", help="Only what has fields: status.phase=Active."
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="In all namespaces, whatever -n says.")
]
Every = Annotated[bool, typer.Option("--all", help="All of the kind in the address space.")]
_FILE = typer.Option(
    "--filename",
    "--file",
    "-f",
    metavar="FILE",
    help="YAML or JSON, or a folder of such files; `-` is standard input. Repeatable.",
)
Files = Annotated[list[str], _FILE]
SomeFiles = Annotated[list[str] | None, _FILE]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-R", help="Of a folder, the files of those in it too.")
]
TimeoutS = Annotated[
    str,
    typer.Option(
        "--timeout", metavar="DURATION", help="Longest wait for all of them: 30s, 2m or seconds."
    ),
]
IgnoreMissing = Annotated[
    bool, typer.Option("--ignore-not-found", help="What is not there is no error.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace of the resource.",
        show_default="that of the default address space where --space could be given, else default",
    ),
]
Space = Annotated[
    str,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Address space it belongs to.",
        show_default="the default address space of the platform; with --namespace, default",
    ),
]
AnySpace = Annotated[
    str | None, typer.Option("--space", "-s", metavar="SPACE", help="Only this address space.")
]
AnyNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NS", help="Only this namespace; by default all."),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Return when it is ready, or at once.")
]

Address = Annotated[
    str,
    typer.Argument(help="The address, for example orders.", autocompletion=completing.addresses),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="ENMASSE_URL",
        help="Any AMQP 1.0 server: amqp://[USER:PASSWORD@]HOST[:PORT], also amqps, ws and wss; by"
        " default the platform on this machine.",
    ),
]
InSpace = Annotated[
    str | None,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Address space, as NAME or NAME.NAMESPACE; by default the platform's default space.",
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
SendCount = Annotated[
    int | None,
    typer.Option(
        "--count", "-c", metavar="N", min=1, help="How many; by default 1, of stdin all lines."
    ),
]
ReceiveCount = Annotated[
    int | None,
    typer.Option("--count", "-c", metavar="N", min=1, help="End after so many messages."),
]
Rate = Annotated[
    float | None, typer.Option(metavar="N", min=0.001, help="At most so many a second.")
]
Settled = Annotated[bool, typer.Option("--settle", help="Send settled: no outcome is asked for.")]
SendTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="Give up when no message gets on for so long; exit code 7."
    ),
]
ReceiveTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="End when none has come for so long."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Where to begin in a stream: first, last, next (the default), an offset, or a time "
        "such as 2026-01-31T08:00:00Z (UTC unless it says).",
    ),
]
Partition = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=2**32 - 1, help="One partition of a stream; an offset needs it."
    ),
]
ReplyTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="Longest wait for a reply.")
]
MessageForm = Annotated[
    Form, typer.Option("--output", "-o", help="Bodies as text, or messages as JSON lines.")
]
Ttl = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Time to live: 500ms, 30s, 2h or seconds."),
]
Delay = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Delivered after so long, from a stored address."),
]
Priority = Annotated[
    int | None, typer.Option(metavar="0-9", min=0, max=9, help="Priority; 4 if left out.")
]
Group = Annotated[str | None, typer.Option(metavar="ID", help="Group that messages belong to.")]
ReplyTo = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where a reply goes.")]
Subject = Annotated[str | None, typer.Option(metavar="TEXT", help="Subject of messages.")]
ContentType = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="MIME type of the body, which is sent as bytes then."),
]
Annotation = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Message annotation such as x-opt-partition=1; repeatable. Numbers, true and false"
        " are such.",
    ),
]
Durable = Annotated[bool, typer.Option("--durable", help="Mark messages as durable.")]
