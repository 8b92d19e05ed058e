"""Groups of commands by kind of resource, which one may name in singular or plural."""

from typing import Any

from typer.core import TyperGroup

ALIASES = (
    {"address", "addresses"},
    {"addressspace", "addressspaces", "space", "spaces"},
    {"user", "users", "messaginguser", "messagingusers"},
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
