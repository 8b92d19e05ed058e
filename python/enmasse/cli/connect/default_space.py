"""The default address space of commands: that of the platform.

It is requested from the platform only by commands that need it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer._click.globals import get_current_context

from enmasse.base.errors import EnMasseError

FIRST = ("default", "default")
"""Namespace and name if the platform does not report a default space."""

_OPTIONS = ("namespace", "space")
_PLACE = {"data": "ENMASSE_DATA", "server": "ENMASSE_SERVER", "token_file": "ENMASSE_TOKEN_FILE"}
_EXPLICIT = ("COMMANDLINE", "ENVIRONMENT")
"""Parameter sources that count as explicit, as typer names them."""


def defaults_of(command: Any) -> dict[str, Callable[[], str]]:
    """Return the defaults of --namespace and --space for a command with both options and one
    address space; empty for others.
    """
    options = {one.name: one.default for one in getattr(command, "params", ())}
    if any(options.get(name) != "default" for name in _OPTIONS):
        return {}
    return {"namespace": lambda: _home()[0], "space": lambda: _home()[1]}


def default_home(data: Path | None, server: str | None, token_file: Path | None) -> tuple[str, str]:
    """Return namespace and name of a platform's default space; FIRST if it does not report one."""
    from enmasse.cli.connect.client import Api
    from enmasse.plan import PLATFORM, default_space
    from enmasse.resources import Namespace, parse

    try:
        with Api.find(data, server, token_file) as api:
            document = api.get(Namespace, "", PLATFORM.name)
    except EnMasseError:
        # The command itself reports the error.
        return FIRST
    name, _, namespace = (default_space(parse(document, stored=True)) or "").partition(".")
    return (namespace, name) if name and namespace else FIRST


def selection_hint(space: tuple[str, str], default: tuple[str, str]) -> str:
    """Return how clients select a new space, and which space is the default.

    Both are given by namespace and name.
    """
    full = ".".join(reversed(space))
    if space == default:
        return f"it is the default address space, {full}, for clients that name none"
    others = ".".join(reversed(default))
    return (
        f"clients select it by host name {full} (TLS server name, SASL or open"
        f" hostname) or as USER@{full}; clients that name no address space use"
        f" {others}"
    )


def _home() -> tuple[str, str]:
    """Return the default space of the command being parsed; FIRST if one of the two options is
    given.
    """
    context = get_current_context()
    sources = (context.get_parameter_source(name) for name in _OPTIONS)
    if any(source is not None and source.name in _EXPLICIT for source in sources):
        return FIRST
    if "home" not in context.meta:
        place_options = {
            name: context.params.get(name) or os.environ.get(of) for name, of in _PLACE.items()
        }
        data, token_file = (
            Path(one) if (one := place_options[name]) else None for name in ("data", "token_file")
        )
        context.meta["home"] = default_home(data, place_options["server"], token_file)
    home: tuple[str, str] = context.meta["home"]
    return home
