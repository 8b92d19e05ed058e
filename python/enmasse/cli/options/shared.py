"""Options shared by several commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from enmasse.cli.options import completion


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
        help="address, addressspace, user, addressplan, ...",
        autocompletion=completion.words,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="ENMASSE_DATA",
        help="Data folder of the platform; it contains the endpoints.",
    ),
]
ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        envvar="ENMASSE_SERVER",
        help=("HTTP API of a remote platform, such as https://mq.example.com:6443."),
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="ENMASSE_TOKEN_FILE",
        help="File with the API token; by default `token` in the data folder.",
    ),
]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
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
    typer.Option("--selector", "-l", metavar="LABELS", help="Label selector, such as team=north."),
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--field-selector", metavar="FIELDS", help="Field selector, such as status.phase=Active."
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces; overrides -n.")
]
Every = Annotated[
    bool, typer.Option("--all", help=("All resources of the kind in the address space."))
]
_FILE = typer.Option(
    "--filename",
    "--file",
    "-f",
    metavar="FILE",
    help="YAML or JSON, or a folder of such files; `-` is standard input. Repeatable.",
)
Files = Annotated[list[str], _FILE]
SomeFiles = Annotated[list[str] | None, _FILE]
Recursive = Annotated[bool, typer.Option("--recursive", "-R", help="Include subfolders.")]
TimeoutS = Annotated[
    str,
    typer.Option("--timeout", metavar="DURATION", help="Maximum total wait: 30s, 2m or seconds."),
]
IgnoreMissing = Annotated[
    bool, typer.Option("--ignore-not-found", help="Ignore resources that do not exist.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace of the resource.",
        autocompletion=completion.of("namespace"),
        show_default=(
            "the namespace of the default address space for commands with --space, else default"
        ),
    ),
]
Space = Annotated[
    str,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Address space it belongs to.",
        autocompletion=completion.of("addressspace"),
        show_default="the default address space of the platform; with --namespace, default",
    ),
]
AnySpace = Annotated[
    str | None,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Only this address space.",
        autocompletion=completion.of("addressspace"),
    ),
]
AnyNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Only this namespace; by default all.",
        autocompletion=completion.of("namespace"),
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help=("Wait until it is ready, or return immediately."))
]

Address = Annotated[
    str,
    typer.Argument(
        help="The address, for example orders.", autocompletion=completion.of("address")
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="ENMASSE_URL",
        help=(
            "AMQP 1.0 server: amqp://[USER:PASSWORD@]HOST[:PORT], also amqps,"
            " ws and wss; default: the platform on this machine."
        ),
    ),
]
MqttUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="ENMASSE_MQTT_URL",
        help=(
            "MQTT server: mqtt://[USER:PASSWORD@]HOST[:PORT], also mqtts; default: the platform"
            " on this machine."
        ),
    ),
]
Topic = Annotated[
    str,
    typer.Argument(
        help="The topic, for example sensors/7/temp.", autocompletion=completion.of("address")
    ),
]
QualityOfService = Annotated[
    int,
    typer.Option(
        "--qos", min=0, max=2, help="At most once (0), at least once (1), exactly once (2)."
    ),
]
InSpace = Annotated[
    str | None,
    typer.Option(
        "--space",
        "-s",
        metavar="SPACE",
        help="Address space, as NAME or NAME.NAMESPACE; by default the platform's default space.",
        autocompletion=completion.of("addressspace"),
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
    int | None, typer.Option(metavar="BYTES", min=0, help="Body size in bytes, instead of text.")
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--properties",
        "-p",
        metavar="NAME=VALUE",
        help=("Application property; repeatable. Numbers and booleans keep their type."),
    ),
]
SendCount = Annotated[
    int | None,
    typer.Option(
        "--count",
        "-c",
        metavar="N",
        min=1,
        help=("Number of messages; default 1, or every line of stdin."),
    ),
]
ReceiveCount = Annotated[
    int | None,
    typer.Option("--count", "-c", metavar="N", min=1, help="Stop after this many messages."),
]
Rate = Annotated[
    float | None, typer.Option(metavar="N", min=0.001, help="Maximum messages per second.")
]
Settled = Annotated[bool, typer.Option("--settle", help="Send pre-settled, without outcomes.")]
SendTimeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help=("Give up after this time without progress; exit code 7.")
    ),
]
ReceiveTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="Stop after this time without a message."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help=(
            "Start position in a stream: first, last, next (default), an"
            " offset, or a time such as 2026-01-31T08:00:00Z (UTC by default)."
        ),
    ),
]
Partition = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=2**32 - 1, help=("Partition of a stream; required with an offset.")
    ),
]
ReplyTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="Maximum wait for a reply.")
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
    typer.Option(metavar="DURATION", help="Delivery delay, on stored addresses."),
]
Priority = Annotated[
    int | None, typer.Option(metavar="0-9", min=0, max=9, help="Priority; default 4.")
]
Group = Annotated[str | None, typer.Option(metavar="ID", help="Message group.")]
ReplyTo = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Address for replies.")]
Subject = Annotated[str | None, typer.Option(metavar="TEXT", help="Subject of messages.")]
ContentType = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help=("MIME type of the body; the body is sent as binary.")),
]
Annotation = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help=(
            "Message annotation such as x-opt-partition=1; repeatable. Numbers"
            " and booleans keep their type."
        ),
    ),
]
Durable = Annotated[bool, typer.Option("--durable", help="Mark messages as durable.")]
