"""The tree of commands, and what becomes of an error."""

from typing import Any

import typer
from typer.core import TyperGroup

from enmasse.base.errors import EnMasseError
from enmasse.cli import errors
from enmasse.cli.commands import (
    apply,
    bench,
    connections,
    crds,
    create,
    delete,
    get,
    operate,
    pipeline,
    receive,
    request,
    respond,
    send,
    settings,
    up,
)

INTERRUPTED = 130


class Root(TyperGroup):
    """The root command: errors of ours become one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except EnMasseError as error:
            errors.say(error)
            raise typer.Exit(errors.EXIT_CODES[type(error)]) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="enmasse",
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=errors.EXPLAINED,
)


@app.callback()
def root() -> None:
    """EnMasse: messaging as a service. Declare an address, connect with any AMQP 1.0 client.

    Start with [bold]enmasse up[/bold]; then, in a second terminal,
    [bold]enmasse receive anycast[/bold], and in a third
    [bold]enmasse send anycast --body hello[/bold].
    """


PLATFORM = "Run and declare"
PIPELINE = "Turn messages into tables"
STORED = "Handle stored messages"
MESSAGES = "Send and receive"

app.command(rich_help_panel=PLATFORM)(up.up)
app.add_typer(create.app, name="create", rich_help_panel=PLATFORM)
app.add_typer(get.app, name="get", rich_help_panel=PLATFORM)
app.add_typer(delete.app, name="delete", rich_help_panel=PLATFORM)
app.command(rich_help_panel=PLATFORM)(apply.apply)
app.command(rich_help_panel=PLATFORM)(connections.trace)
app.command(rich_help_panel=PLATFORM)(settings.settings)
app.command(rich_help_panel=PLATFORM)(crds.crds)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=PIPELINE)
app.command(rich_help_panel=STORED)(operate.peek)
app.command(rich_help_panel=STORED)(operate.purge)
app.command(rich_help_panel=STORED)(operate.move)
app.command(rich_help_panel=STORED)(operate.copy)
app.command(rich_help_panel=STORED)(operate.redrive)
app.command(rich_help_panel=MESSAGES)(send.send)
app.command(rich_help_panel=MESSAGES)(receive.receive)
app.command(rich_help_panel=MESSAGES)(request.request)
app.command(rich_help_panel=MESSAGES)(respond.respond)
app.command(rich_help_panel=MESSAGES)(bench.bench)


def main() -> None:
    """Run the command line; the entry point of the `enmasse` program."""
    app()
