"""Lazily imported commands by name.

Importing all of them with their options would take longer than most commands run.
"""

from collections.abc import Callable, Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer

from enmasse.cli.options.invocation import Group

RUN = "Run and declare"
PIPELINE = "Turn messages into tables"
STORED = "Handle stored messages"
MESSAGES = "Send and receive"


class Place(NamedTuple):
    """Module of a command, and its help section."""

    module: str
    """Below `enmasse.cli.commands`; it has a function with the command's name, or a group `app`."""

    panel: str


def _panel(heading: str, *names: str) -> dict[str, Place]:
    return {name: Place(name, heading) for name in names}


COMMANDS: dict[str, Place] = {
    **_panel(
        RUN, "up", "console", "create", "get", "delete", "user", "token", "plan", "apply", "edit"
    ),
    **_panel(RUN, "describe", "wait", "top", "doctor", "logs", "audit"),
    "node": Place("node", RUN),
    "connection": Place("connection", RUN),
    "session": Place("session", RUN),
    "trace": Place("connections", RUN),
    **_panel(RUN, "context", "settings", "crds"),
    **_panel(PIPELINE, "pipeline"),
    "backup": Place("backup", STORED),
    "restore": Place("backup", STORED),
    **{
        name: Place("operate", STORED)
        for name in ("peek", "purge", "move", "copy", "redrive", "post")
    },
    "retained": Place("retained", STORED),
    **_panel(MESSAGES, "send", "receive", "request", "respond", "pub", "sub", "bench"),
}
"""All commands, in the order of the help."""


class Commands(MutableMapping[str, Any]):
    """The commands of the root group, built on lookup."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}
        self._names = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = build(name, COMMANDS[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._names[name] = None
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def build(name: str, place: Place) -> Any:
    """Return a command in the form of the root group."""
    module = import_module(f"enmasse.cli.commands.{place.module}")
    single = Group(rich_markup_mode="rich", pretty_exceptions_enable=False)
    single.callback()(_nothing)  # a single command would not be a group otherwise
    group: typer.Typer | None = getattr(module, "app", None)
    if group is not None:
        single.add_typer(group, name=name, rich_help_panel=place.panel)
    else:
        function: Callable[..., Any] = getattr(module, name)
        single.command(name, rich_help_panel=place.panel)(function)
    return typer.main.get_group(single).commands[name]


def _nothing() -> None:
    """Callback of a group without options."""
