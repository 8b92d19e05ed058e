"""Suggests commands that work on the platform in its present state."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from enmasse.base.data_dir import default_data_dir
from enmasse.plan import FIRST_DEFAULT, PLATFORM, default_space, is_open
from enmasse.resources import Address, AddressSpace, MessagingUser, Resource


class Meeting(NamedTuple):
    """An address that everyone may use."""

    address: str
    space: str
    """NAME.NAMESPACE"""

    is_default: bool
    """Whether its space is the default space."""


def meeting(resources: Iterable[Resource], *, exposed: bool = False) -> Meeting | None:
    """Return an anycast address of an open space, or None.

    `exposed`: other machines can reach a listener unintentionally.
    """
    declared = list(resources)
    users = [one for one in declared if isinstance(one, MessagingUser)]
    spaces = [one for one in declared if isinstance(one, AddressSpace)]
    open_spaces = {
        (one.metadata.namespace, one.metadata.name)
        for one in spaces
        if is_open(one, users, exposed=exposed)
    }
    default = next((default_space(one) for one in declared if one.key == PLATFORM), None)
    for one in declared:
        home = (one.metadata.namespace, one.space)
        if isinstance(one, Address) and one.spec.type == "anycast" and home in open_spaces:
            name = f"{home[1]}.{home[0]}"
            first = len(spaces) == 1 or home == FIRST_DEFAULT
            return Meeting(one.name, name, first if default is None else name == default)
    return None


def next_commands(
    where: Meeting | None, data: Path, program: Path, *, waits_for_users: bool = False
) -> str:
    """Return suggested commands for the program at a path.

    `waits_for_users`: the space is closed and has no users.
    """
    enmasse = typed(program)
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


def typed(program: Path) -> str:
    """Return how to call a program: its path, unless the shell finds it by name."""
    found = shutil.which(program.name)
    if found and Path(found).resolve() == program.resolve():
        return program.name
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program.absolute())
