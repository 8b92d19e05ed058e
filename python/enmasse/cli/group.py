"""Command groups by kind, which may be written in singular or plural."""

from typing import Any

from typer.core import TyperGroup

ALIASES = (
    {"address", "addresses", "addr"},
    {"addressspace", "addressspaces", "as", "space", "spaces"},
    {"user", "users", "messaginguser", "messagingusers", "mu"},
    {"connection", "connections"},
)
"""Aliases of one kind. The first that is a command of the group is used."""


class Aliases(TyperGroup):
    """A group that accepts every alias of a kind."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with that name or an alias of it."""
        names = next((names for names in ALIASES if cmd_name.lower() in names), {cmd_name})
        found = [super(Aliases, self).get_command(ctx, name) for name in names]
        return next(filter(None, found), None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command of the first argument, and the remaining arguments.

        Raises: UsageError if there is no such command or kind.
        """
        _, command, rest = super().resolve_command(ctx, args)
        return (command.name if command else None), command, rest
