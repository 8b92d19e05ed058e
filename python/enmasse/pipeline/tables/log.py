"""The commits of a Delta table, read one by one from its log."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from enmasse.pipeline.connector import uris

US_PER_S = 1_000_000
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class LogGoneError(Exception):
    """The log entry of a version has expired."""


@dataclass(frozen=True)
class Added:
    """A file that a commit adds."""

    path: str
    values: Mapping[str, str | None]
    """The values of partition columns."""
    rows: int
    bounds: tuple[int, int] | None
    """Bounds of the requested column, a time in microseconds."""


@dataclass(frozen=True)
class Commit:
    """The changes of rows in a version; compaction changes nothing."""

    version: int
    time_ms: int
    added: tuple[Added, ...]
    removed: tuple[Mapping[str, str | None], ...]
    """The partition values of files that are removed."""


def commits(table: str, since: int, until: int, column: str) -> Iterator[Commit]:
    """Yield the commits after version `since` up to `until`, with the bounds of a column.

    Raises LogGoneError if one of them has expired.
    """
    for version in range(since + 1, until + 1):
        yield _commit(table, version, column)


def time_ms(table: str, version: int) -> int:
    """Return the time of a commit; raises LogGoneError."""
    return _commit(table, version, "").time_ms


def _commit(table: str, version: int, column: str) -> Commit:
    files, root = uris.files(table)
    path = f"{root}/_delta_log/{version:020}.json"
    try:
        with files.open_input_stream(path) as stream:
            lines = stream.read().decode().splitlines()
    except FileNotFoundError:
        raise LogGoneError(f"{table} has no log entry of version {version}") from None
    added, removed, written_ms = list[Added](), list[Mapping[str, str | None]](), 0
    for action in map(json.loads, lines):
        if (add := action.get("add")) and add["dataChange"]:
            added.append(_added(add, column))
        elif (remove := action.get("remove")) and remove.get("dataChange", True):
            removed.append(remove.get("partitionValues") or _of_path(remove["path"]))
        elif info := action.get("commitInfo"):
            written_ms = int(info.get("timestamp", 0))
    return Commit(version, written_ms, tuple(added), tuple(removed))


def _added(add: Mapping[str, Any], column: str) -> Added:
    stats = json.loads(add.get("stats") or "{}")
    sides = [stats.get(name, {}).get(column) for name in ("minValues", "maxValues")]
    least, most = (None if side is None else _us(side) for side in sides)
    bounds = None if least is None or most is None else (least, most)
    rows = int(stats.get("numRecords", 0))
    return Added(unquote(add["path"]), add["partitionValues"], rows, bounds)


def _of_path(path: str) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in unquote(path).split("/")[:-1]]
    return {name: value for name, _, value in pairs}


def _us(time: str) -> int:
    """Convert a time of statistics to microseconds since 1970."""
    since = datetime.fromisoformat(time) - EPOCH
    return (since.days * 86_400 + since.seconds) * US_PER_S + since.microseconds
