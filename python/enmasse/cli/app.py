"""The tree of commands, and the handling of errors."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from enmasse import __version__
from enmasse.base.errors import EnMasseError
from enmasse.cli import errors
from enmasse.cli.connect.contexts import Context, choose, chosen
from enmasse.cli.connect.default_space import defaults_of
from enmasse.cli.tree import Commands

INTERRUPTED = 130


class Root(TyperGroup):
    """The root command: turns errors into one line and an exit code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = Commands()

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command."""
        try:
            return super().invoke(ctx)
        except EnMasseError as error:
            errors.report(error)
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


def _print_version(version: bool) -> None:
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
            help="Context to use; see `enmasse context list`.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """EnMasse: messaging as a service. Declare an address, connect with AMQP 1.0 or MQTT.

    Start with [bold]enmasse up[/bold]; then, in a second terminal,
    [bold]enmasse receive anycast[/bold], and in a third
    [bold]enmasse send anycast --body hello[/bold].
    """
    choose(context_)
    name = ctx.invoked_subcommand or ""
    if name not in WITHOUT_CONTEXT:
        chosen_context = chosen() or Context()
        selected = {"namespace": chosen_context.namespace, "space": chosen_context.space}
        defaults = {name: value for name, value in selected.items() if value is not None}
        invoked: Any = ctx.command
        ctx.default_map = {name: default_options(invoked.get_command(ctx, name), defaults)}


WITHOUT_CONTEXT = ("context", "crds", "pipeline", "settings", "up")
"""Commands that need no running platform: a broken context does not affect them."""


def default_options(command: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return default options for a command and its subcommands; without any, the platform's default
    address space applies.
    """
    below = getattr(command, "commands", {})
    own = defaults or defaults_of(command)
    return own | {name: default_options(one, defaults) for name, one in below.items()}


def main() -> None:
    """Run the command line; the entry point of `enmasse`."""
    app()
