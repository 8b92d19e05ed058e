"""The tree of commands, and what becomes of an error."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from enmasse import __version__
from enmasse.base.errors import EnMasseError
from enmasse.cli import errors
from enmasse.cli.commands import (
    apply,
    audit,
    backup,
    bench,
    connections,
    context,
    crds,
    create,
    delete,
    describe,
    doctor,
    edit,
    get,
    logs,
    operate,
    pipeline,
    plan,
    receive,
    request,
    respond,
    send,
    settings,
    token,
    top,
    up,
    user,
    wait,
)
from enmasse.cli.contexts import choose, chosen

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


def _told(version: bool) -> None:
    if version:
        typer.echo(f"enmasse {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    context_: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            envvar="ENMASSE_CONTEXT",
            help="Platform that is meant, from `enmasse context list`.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_told),
    ] = False,
) -> None:
    """EnMasse: messaging as a service. Declare an address, connect with any AMQP 1.0 client.

    Start with [bold]enmasse up[/bold]; then, in a second terminal,
    [bold]enmasse receive anycast[/bold], and in a third
    [bold]enmasse send anycast --body hello[/bold].
    """
    choose(context_)
    if ctx.invoked_subcommand not in WITHOUT_CONTEXT and (meant := chosen()) is not None:
        said = {"namespace": meant.namespace, "space": meant.space}
        defaults = {name: value for name, value in said.items() if value is not None}
        ctx.default_map = everywhere(ctx.command, defaults)


WITHOUT_CONTEXT = ("context", "crds", "pipeline", "settings", "up")
"""Commands that are about no running platform: a bad context must not keep anybody from them."""


def everywhere(command: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of options for a command and all below it."""
    below = getattr(command, "commands", {})
    return defaults | {name: everywhere(one, defaults) for name, one in below.items()}


PLATFORM = "Run and declare"
PIPELINE = "Turn messages into tables"
STORED = "Handle stored messages"
MESSAGES = "Send and receive"

app.command(rich_help_panel=PLATFORM)(up.up)
app.add_typer(create.app, name="create", rich_help_panel=PLATFORM)
app.command(rich_help_panel=PLATFORM)(get.get)
app.command(rich_help_panel=PLATFORM)(delete.delete)
app.add_typer(user.app, name="user", rich_help_panel=PLATFORM)
app.add_typer(token.app, name="token", rich_help_panel=PLATFORM)
app.add_typer(plan.app, name="plan", rich_help_panel=PLATFORM)
app.command(rich_help_panel=PLATFORM)(apply.apply)
app.command(rich_help_panel=PLATFORM)(edit.edit)
app.command(rich_help_panel=PLATFORM)(describe.describe)
app.command(rich_help_panel=PLATFORM)(wait.wait)
app.command(rich_help_panel=PLATFORM)(top.top)
app.command(rich_help_panel=PLATFORM)(doctor.doctor)
app.command(rich_help_panel=PLATFORM)(logs.logs)
app.command(rich_help_panel=PLATFORM)(audit.audit)
app.command(rich_help_panel=PLATFORM)(connections.trace)
app.add_typer(context.app, name="context", rich_help_panel=PLATFORM)
app.command(rich_help_panel=PLATFORM)(settings.settings)
app.command(rich_help_panel=PLATFORM)(crds.crds)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=PIPELINE)
app.command(rich_help_panel=STORED)(backup.backup)
app.command(rich_help_panel=STORED)(backup.restore)
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
