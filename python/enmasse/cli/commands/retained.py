"""`enmasse retained`: retained messages of an address space."""

from typing import Annotated

import typer

from enmasse.cli.options.invocation import Group, Spaced, SpacedReporting

app = Group(no_args_is_help=True, help="Retained messages: the last message of each topic.")

Topics = Annotated[
    str, typer.Argument(metavar="FILTER", help="Topic filter of MQTT, such as 'sensors/+/temp'.")
]


@app.command("list")
def list_(topics: Topics = "#", *, call: SpacedReporting) -> None:
    """Show retained messages.

    Example: enmasse retained list 'sensors/#'
    """
    from enmasse.cli.output.printing import show
    from enmasse.cli.output.retained import table

    with call.api() as api:
        items = list(api.retained(call.namespace, call.space, topics))
    show({"items": items}, call.output, lambda: table(items))


@app.command()
def delete(topics: Topics, *, call: Spaced) -> None:
    """Delete retained messages. Later subscribers do not receive them.

    Example: enmasse retained delete 'sensors/7/#'
    """
    with call.api() as api:
        count = api.delete_retained(call.namespace, call.space, topics)
    print(f"{count} retained message{'' if count == 1 else 's'} deleted")
