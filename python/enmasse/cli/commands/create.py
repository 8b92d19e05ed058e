"""`enmasse create`: declare one resource from the command line."""

from typing import Annotated, Any

import typer

from enmasse.cli.commands import create_core
from enmasse.cli.group import Aliases
from enmasse.cli.options import completion, stored
from enmasse.cli.options.invocation import Group, NamespacedReporting, Reporting, SpacedReporting
from enmasse.cli.options.shared import Output, Wait

AddressName = Annotated[
    str, typer.Argument(help=("Address name for clients, such as orders or news/europe."))
]
AddressType = Annotated[
    str,
    typer.Option(
        "--type",
        "-t",
        metavar="TYPE",
        help="anycast, multicast, queue, topic, subscription or deadletter.",
    ),
]
OtherAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help=("Address name for clients, if NAME is the resource name.")
    ),
]
Password = Annotated[
    str | None,
    typer.Option(
        envvar="ENMASSE_PASSWORD",
        help="Password; prompted for if absent.",
    ),
]
MaySend = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help=("Right to send to this address or pattern; repeatable.")),
]
MayReceive = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS", help=("Right to receive from this address or pattern; repeatable.")
    ),
]
MayCreate = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="Right to create this address or pattern by a link (autoCreate); repeatable.",
    ),
]

app = Group(cls=Aliases, no_args_is_help=True, help="Create resources from files, or one resource.")
app.callback(invoke_without_command=True)(create_core.files)
app.command()(create_core.namespace)
app.command()(create_core.configmap)
app.add_typer(create_core.secrets, name="secret")


@app.command()
def address(
    name: AddressName,
    type_: AddressType,
    address: OtherAddress = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            help="Plan of the address.",
            autocompletion=completion.of("addressplan"),
        ),
    ] = None,
    topic: stored.Topic = None,
    max_consumers: stored.MaxConsumers = None,
    deadletter: stored.Deadletter = None,
    expiry: stored.Expiry = None,
    ttl_min: stored.TtlMin = None,
    ttl_max: stored.TtlMax = None,
    max_attempts: stored.MaxAttempts = None,
    redelivery_delay: stored.RedeliveryDelay = None,
    durability: stored.Durability = None,
    max_messages: stored.MaxMessages = None,
    max_bytes: stored.MaxBytes = None,
    max_message_size: stored.MaxMessageSize = None,
    on_full: stored.OnFull = None,
    retention_age: stored.RetentionAge = None,
    retention_bytes: stored.RetentionBytes = None,
    partitions: stored.Partitions = None,
    wait: Wait = True,
    *,
    call: SpacedReporting,
) -> None:
    """Declare an address and return when the node serves it. A file has more fields than the
    options here; see `enmasse apply`.

    Examples:

      enmasse create address orders --type anycast

      enmasse create address news/europe --type multicast --space shop
    """
    from enmasse.cli.resources.names import in_space
    from enmasse.resources.naming import resource_name

    # By default the address determines the name of the resource.
    resource = resource_name(call.space, name) if address is None else in_space(call.space, name)
    spec = stored.nested(
        {
            "type": type_,
            "address": address or name,
            "plan": plan,
            "topic": topic,
            "subscription.maxConsumers": max_consumers,
            "deadletter": deadletter,
            "expiry": expiry,
            "messageTtl.minimum": ttl_min,
            "messageTtl.maximum": ttl_max,
            "messageRedelivery.maximumDeliveryAttempts": max_attempts,
            "messageRedelivery.redeliveryDelay": redelivery_delay,
            "durability": durability,
            "limits.messages": max_messages,
            "limits.bytes": max_bytes,
            "limits.messageSize": max_message_size,
            "limits.onFull": on_full,
            "retention.age": retention_age,
            "retention.bytes": retention_bytes,
            "partitions": partitions,
        }
    )
    document = _document("Address", resource, call.namespace, spec)
    _create("addresses", document, wait, call)


@app.command()
def addressspace(
    name: Annotated[str, typer.Argument(help="Name of the space.")],
    type_: Annotated[
        str, typer.Option("--type", "-t", metavar="TYPE", help="Kind of space.")
    ] = "standard",
    authentication: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help=(
                "none admits everyone, standard admits users only. Default:"
                " standard if other machines can reach the platform, else"
                " everyone until the first user exists."
            ),
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            help="Plan of the space.",
            autocompletion=completion.of("addressspaceplan"),
        ),
    ] = None,
    wait: Wait = True,
    *,
    call: NamespacedReporting,
) -> None:
    """Declare an address space with addresses and users of its own, isolated from other spaces.

    Example: enmasse create addressspace shop --authentication standard
    """
    spec: dict[str, Any] = {"type": type_} | ({"plan": plan} if plan else {})
    if authentication:
        spec["authenticationService"] = {"type": authentication}
    document = _document("AddressSpace", name, call.namespace, spec)
    _create("addressspaces", document, wait, call)
    # For people only; programs get the document alone.
    if call.output is Output.TABLE:
        from enmasse.cli.connect.default_space import default_home, selection_hint

        typer.echo(
            selection_hint(
                (call.namespace, name), default_home(call.data, call.server, call.token_file)
            )
        )


@app.command()
def user(
    name: Annotated[str, typer.Argument(help="User name for login.")],
    password: Password = None,
    password_secret: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[/KEY]",
            help="Secret and key that hold the password, instead of --password.",
        ),
    ] = None,
    send: MaySend = None,
    receive: MayReceive = None,
    create: MayCreate = None,
    wait: Wait = True,
    *,
    call: SpacedReporting,
) -> None:
    """Declare a user of an address space. Without --send, --receive and --create the user may send
    to and receive from all addresses.

    The first user closes a space without an authentication service: from then on clients must log
    in.

    Example: enmasse create user alice --send orders --receive 'news/#'
    """
    from enmasse.resources.naming import resource_name

    allowed = [
        {"operations": [operation], "addresses": addresses}
        for operation, addresses in (("send", send), ("recv", receive), ("create", create))
        if addresses
    ]
    spec = {
        "username": name,
        "authentication": {"type": "password", **_password(password, password_secret)},
        "authorization": allowed or [{"operations": ["send", "recv"]}],
    }
    document = _document("MessagingUser", resource_name(call.space, name), call.namespace, spec)
    _create("messagingusers", document, wait, call)


def _password(given: str | None, secret: str | None) -> dict[str, Any]:
    """Return the password, or the reference to its Secret.

    Raises: BadParameter if there is none.
    """
    if secret is None:
        return {"password": encoded_password(given)}
    name, _, key = secret.partition("/")
    return {"passwordSecret": {"name": name} | ({"key": key} if key else {})}


def encoded_password(given: str | None) -> str:
    """Return a password in the form of documents; prompt for it if it is not given.

    Raises: BadParameter if there is none.
    """
    import base64

    return base64.b64encode((given or _prompted_password()).encode()).decode()


def _prompted_password() -> str:
    """Prompt for a password on the terminal.

    Raises: BadParameter if there is none.
    """
    from enmasse.cli.output.printing import is_interactive

    if not is_interactive():
        raise typer.BadParameter(
            "no terminal to prompt on; pass it, or set ENMASSE_PASSWORD",
            param_hint="--password",
        )
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked


def _document(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    from enmasse.resources import API_VERSION

    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _create(
    plural: str,
    document: dict[str, Any],
    wait: bool,
    call: Reporting,
) -> None:
    from enmasse.cli.output.printing import show

    with call.api() as api:
        created = api.create(plural, document)
        if wait:
            created = api.wait_ready(plural, created)
    message = f"{created['kind']} {created['metadata']['name']} created"
    show(created, call.output, lambda: f"{message} and ready" if wait else message)
