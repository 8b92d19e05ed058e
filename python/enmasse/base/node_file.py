"""`DIR/node.json`: the identity of the node whose data folder this is.

The store has the same identity. Both are changed at each start, the file before and after the
store, so that a crash in between leaves a state that the next start recognises.
"""

import json
import os
import re
import socket
from pathlib import Path
from typing import Any, NamedTuple

from enmasse.base.data_dir import write_private
from enmasse.base.errors import Code, Invalid, Unavailable

NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A name of a node: a label as in Kubernetes, because it is a part of names."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class NodeRecord(NamedTuple):
    """What a data folder knows of its node."""

    store: str
    """Identity of the store that has the node."""

    name: str
    uid: str
    start: int
    """Number of the last completed start; 0 before the first one."""

    mark: str
    """Random text of that start."""

    next_mark: str | None = None
    """Mark of a start that may or may not have reached the store."""


def read(path: Path) -> NodeRecord | None:
    """Return the content of the file; None without one.

    Raises: Unavailable if it is unreadable.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        record = NodeRecord(
            str(found["store"]),
            str(found["name"]),
            str(found["uid"]),
            int(found["start"]),
            str(found["mark"]),
            found.get("nextMark"),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unavailable(
            Code.DATA_UNUSABLE,
            f"{path}: {error}; correct it, or delete it: the folder then becomes a new node",
        ) from None
    return record


def write(path: Path, record: NodeRecord) -> None:
    """Replace the file; it is on disk when this returns.

    Raises: Unavailable if it cannot be written.
    """
    document = {
        "store": record.store,
        "name": record.name,
        "uid": record.uid,
        "start": record.start,
        "mark": record.mark,
        "nextMark": record.next_mark,
    }
    try:
        write_private(path, json.dumps(document) + "\n")
    except OSError as error:
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path}: {error.strerror or error}; check the disk"
        ) from None


def default_name() -> str:
    """Return the default name of a node: the first part of the host name, in lower case.

    Raises: Invalid if that is no name of a node.
    """
    host = socket.gethostname()
    name = host.partition(".")[0].lower().replace("_", "-")
    if not NODE_NAME.fullmatch(name):
        raise Invalid(
            Code.SETTING_INVALID,
            f"setting node-name: the host name {host!r} is no name of a node; set --node-name to 1"
            " to 63 lower-case letters, digits and hyphens",
        )
    return name


def place_of(folder: Path) -> str:
    """Return a text that is the same for two processes only if they use one folder in one run of
    the system, where the lock of the folder excludes one of them. Empty: unknown.
    """
    try:
        status = os.stat(folder / "lock")
        return f"{_BOOT_ID.read_text().strip()}:{status.st_dev}:{status.st_ino}"
    except OSError:
        return ""
