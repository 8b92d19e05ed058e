"""Groups of commands by kind of resource, which one may name in singular or plural."""

from typing import Any

from typer.core import TyperGroup

ALIASES = (
    {"address", "addresses", "addr"},
    {"addressspace", "addressspaces", "as", "space", "spaces"},
    {"user", "users", "messaginguser", "messagingusers", "mu"},
    {"connection", "connections"},
)
"""Names of one kind. The first of them that is a command of the group is meant."""


class Aliases(TyperGroup):
    """A group that knows each of its commands by all names of the kind."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name or of another name of the same kind."""
        names = next((names for names in ALIASES if cmd_name.lower() in names), {cmd_name})
        found = [super(Aliases, self).get_command(ctx, name) for name in names]
        return next(filter(None, found), None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is meant by its own name, and its arguments.

        Raises: UsageError if there is no such command or kind.
        """
        _, command, rest = super().resolve_command(ctx, args)
        return (command.name if command else None), command, rest
