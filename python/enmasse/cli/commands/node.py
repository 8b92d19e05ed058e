"""`enmasse node`: take nodes out of service and back, and forget those that have gone."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from enmasse.base.kinds import KINDS
from enmasse.cli.options import completion
from enmasse.cli.options.invocation import Group, Invocation

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api

app = Group(no_args_is_help=True, help="Nodes: the processes of the platform.")

KIND = KINDS["MessagingNode"]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the node, as `enmasse get nodes` shows it.",
        autocompletion=completion.of("messagingnode"),
    ),
]


@app.command()
def cordon(name: Name, *, call: Invocation) -> None:
    """Let a node refuse new connections and keep the open ones, also after a restart.

    Clients that connect get `amqp:connection:forced`, or 0x9C with MQTT 5.0.

    Example: enmasse node cordon rack-2
    """
    _set_cordoned(call, name, cordoned=True)


@app.command()
def uncordon(name: Name, *, call: Invocation) -> None:
    """Let a node admit new connections again.

    Example: enmasse node uncordon rack-2
    """
    _set_cordoned(call, name, cordoned=False)


@app.command()
def forget(name: Name, *, call: Invocation) -> None:
    """Delete a node whose process has gone and does not return.

    A node that runs, and the last one that served addresses, are refused. A process that returns
    with the data folder of a forgotten node is a new node.

    Example: enmasse node forget rack-2
    """
    with call.api() as api:
        api.delete(KIND.plural, _namespace(api, name), name)
    print(f"node {name} forgotten")


def _set_cordoned(call: Invocation, name: str, *, cordoned: bool) -> None:
    patch: dict[str, Any] = {"spec": {"cordoned": cordoned}}
    with call.api() as api:
        api.patch(KIND, _namespace(api, name), name, patch)
    print(f"node {name} {'cordoned' if cordoned else 'uncordoned'}")


def _namespace(api: "Api", name: str) -> str:
    """Return the namespace of a node.

    Raises: Missing if there is none; the message names the others.
    """
    from enmasse.base.errors import Code, Missing

    nodes = {
        one["metadata"]["name"]: one["metadata"] for one in api.list(KIND.plural, None)["items"]
    }
    if name not in nodes:
        known = f"; there are {', '.join(sorted(nodes))}" if nodes else ""
        raise Missing(Code.RESOURCE_MISSING, f"node {name!r} not found{known}")
    namespace: str = nodes[name]["namespace"]
    return namespace
