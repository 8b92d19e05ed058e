"""Suggests commands that work on the platform in its present state."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from enmasse.base.data_dir import default_data_dir
from enmasse.cli.connect import network
from enmasse.plan import FIRST_DEFAULT, PLATFORM, DeclaredState, default_space, open_spaces
from enmasse.plan.declared import full_name, home_of
from enmasse.resources import Address, Resource


def console_url(endpoints: Mapping[str, tuple[str, int]]) -> str | None:
    """Return the URL of the console for browsers on this machine; None without the HTTP API."""
    kind = next((one for one in ("http", "https") if one in endpoints), None)
    return None if kind is None else f"{network.url(kind, *endpoints[kind])}/console/"


class SuggestedAddress(NamedTuple):
    """An address that everyone may use."""

    address: str
    space: str
    """NAME.NAMESPACE"""

    is_default: bool
    """Whether its space is the default space."""


def suggested_address(
    resources: Iterable[Resource], *, exposed: bool = False
) -> SuggestedAddress | None:
    """Return an anycast address of an open space, or None.

    `exposed`: other machines can reach a listener unintentionally.
    """
    every = list(resources)
    # Whether a space is open does not depend on its addresses, of which there may be many.
    declared = DeclaredState(one for one in every if not isinstance(one, Address))
    names = {home_of(one): full_name(one) for one in open_spaces(declared, exposed=exposed)}
    default = default_space(declared.get(PLATFORM))
    for one in every:
        if isinstance(one, Address) and one.spec.type == "anycast":
            home = home_of(one)
            if (name := names.get(home)) is not None:
                first = len([*declared.spaces()]) == 1 or home == FIRST_DEFAULT
                return SuggestedAddress(
                    one.name, name, first if default is None else name == default
                )
    return None


def next_commands(
    where: SuggestedAddress | None, data: Path, program: Path, *, waits_for_users: bool = False
) -> str:
    """Return suggested commands for the program at a path.

    `waits_for_users`: the space is closed and has no users.
    """
    enmasse = invocation(program)
    folder = "" if data == default_data_dir() else f" --data {data}"
    if where is not None:
        place = where.address + ("" if where.is_default else f" --space {where.space}") + folder
        commands = [f"receive {place}", f"send {place} --body hello", f"get addresses{folder}"]
    elif waits_for_users:
        commands = [f"user create alice --send queue --receive queue{folder}", "user create --help"]
    else:
        commands = [
            f"get addressspaces{folder}",
            f"get addresses{folder}",
            "create --help",
            "user create --help",
        ]
    lines = "".join(f"  {enmasse} {command}\n" for command in commands)
    return f"Try, each in a terminal of its own:\n{lines}"


def invocation(program: Path) -> str:
    """Return how to call a program: its path, unless the shell finds it by name."""
    found = shutil.which(program.name)
    if found and Path(found).resolve() == program.resolve():
        return program.name
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program.absolute())
