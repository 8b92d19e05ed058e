"""`enmasse peek`, `purge`, `move`, `copy`, `redrive`: operations on stored messages."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from enmasse.cli.options import completion
from enmasse.cli.options.invocation import SpacedReporting
from enmasse.cli.options.shared import (
    Address,
    Data,
    Priority,
    Property,
    ServerUrl,
    Subject,
    TokenFile,
)

Place = tuple[Data, ServerUrl, TokenFile]
Selector = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help=("Only messages that match this JMS selector.")),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the messages only; change nothing.")]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="Maximum number of messages.")]
To = Annotated[
    str,
    typer.Argument(
        metavar="TO", help="Destination address.", autocompletion=completion.of("address")
    ),
]

PEEK_LIMIT = 100


def peek(
    address: Address,
    selector: Selector = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of messages, oldest first.")
    ] = PEEK_LIMIT,
    *,
    call: SpacedReporting,
) -> None:
    """Show stored messages that no consumer holds, or the messages of a stream, without removing
    them.

    Examples:

      enmasse peek orders --limit 10

      enmasse peek dead --selector "team = 'north'" --output json
    """
    from enmasse.cli.output.printing import show

    request = {"selector": selector, "limit": limit}
    answers = _answers("peek", address, request, call)
    items = [item for answer in answers for item in answer["items"]]
    show({"items": items}, call.output, lambda: _table(items))


def purge(
    address: Address,
    selector: Selector = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    *,
    call: SpacedReporting,
) -> None:
    """Delete stored messages that no consumer holds. They cannot be recovered.

    Examples:

      enmasse purge orders --dry-run

      enmasse purge orders --selector "team = 'north'" --limit 1000
    """
    request = {"selector": selector, "dryRun": dry_run, "limit": limit}
    _operate("purge", "purged from", address, request, call)


def move(
    address: Address,
    to: To,
    selector: Selector = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    *,
    call: SpacedReporting,
) -> None:
    """Move stored messages to a queue or topic of the same address space.

    Example: enmasse move orders orders-later --selector "priority < 4"
    """
    request = {"to": to, "selector": selector, "dryRun": dry_run, "limit": limit}
    action = f"moved to {to} from"
    _operate("move", action, address, request, call)


def copy(
    address: Address,
    to: To,
    selector: Selector = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    *,
    call: SpacedReporting,
) -> None:
    """Copy stored messages to a queue or topic of the same address space.

    Example: enmasse copy orders trial --limit 10
    """
    request = {"to": to, "selector": selector, "dryRun": dry_run, "limit": limit}
    action = f"copied to {to} from"
    _operate("copy", action, address, request, call)


def redrive(
    address: Address,
    selector: Selector = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    *,
    call: SpacedReporting,
) -> None:
    """Move dead letters back to their original addresses. ADDRESS is of type deadletter.

    Example: enmasse redrive dead --selector "team = 'north'"
    """
    request = {"selector": selector, "dryRun": dry_run, "limit": limit}
    _operate("redrive", "put back from", address, request, call)


def post(
    address: Address,
    body: Annotated[str, typer.Option(metavar="TEXT", help="Body as text.")] = "",
    count: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Number of messages.")
    ] = 1,
    properties: Property = None,
    subject: Subject = None,
    priority: Priority = None,
    *,
    call: SpacedReporting,
) -> None:
    """Send messages over the HTTP API, with the rights of the API token. This needs no messaging
    user and no messaging port. `enmasse send` has more options.

    Example: enmasse post orders --body hello --properties team=north
    """
    from enmasse.cli.messaging.messages import assigned
    from enmasse.cli.output.printing import show

    message = {
        "body": body,
        "properties": {"subject": subject} if subject else None,
        "applicationProperties": dict(assigned(one, "--properties") for one in properties or ()),
        "priority": priority,
    }
    given = {name: value for name, value in message.items() if value is not None}
    (answer,) = _answers("send", address, {"message": given, "count": count}, call)
    reason = f": {answer['description']}" if answer.get("description") else ""
    show(answer, call.output, lambda: f"{answer['messages']} {answer['outcome']}{reason}")
    if answer["outcome"] != "accepted":
        raise typer.Exit(1)


def _operate(
    operation: str,
    action: str,
    address: str,
    request: dict[str, Any],
    call: SpacedReporting,
) -> None:
    """Perform an operation on all its messages and print their number.

    If it fails half-way, the number so far is printed as well.
    """
    from enmasse.cli.output.printing import show, text

    done = {"operation": operation, "address": address, "dryRun": request["dryRun"]}
    messages, size, ended = 0, 0, False
    try:
        for answer in _answers(operation, address, request, call):
            messages += answer["messages"]
            size += answer["bytes"]
        ended = True
    finally:
        if ended or messages:
            would = "would be " if request["dryRun"] else ""
            line = f"{text(messages)} messages ({text(size)} bytes) {would}{action} {address}"
            show(done | {"messages": messages, "bytes": size}, call.output, lambda: line)


def _answers(
    operation: str, address: str, request: dict[str, Any], call: SpacedReporting
) -> Iterator[dict[str, Any]]:
    from enmasse.base.kinds import KINDS
    from enmasse.cli.resources.names import fetch_by_name

    action = {name: value for name, value in request.items() if value is not None}
    with call.api() as api:
        found = fetch_by_name(api, KINDS["Address"], address, call.space, call.namespace)
        name = found["metadata"]["name"]
        yield from api.operate(operation, call.namespace, name, action)


def _table(items: list[dict[str, Any]]) -> str:
    from enmasse.cli.output.printing import columns

    headings = ["ID", "STATE", "ENQUEUED", "ATTEMPTS", "BYTES", "BODY"]
    if items and "offset" in items[0]:
        headings = ["PARTITION", "OFFSET", "ENQUEUED", "BYTES", "BODY"]
    rows = [[*(item[name.lower()] for name in headings[:-1]), _body(item)] for item in items]
    return columns(headings, rows)


def _body(item: dict[str, Any]) -> str:
    if "message" not in item:
        return "(too large to show)"
    body = item["message"]["body"]
    text = body if isinstance(body, str) else repr(body)
    return " ".join(text.split())[:80]
