"""What Spark does with a pipeline's batches, without Spark: a process that starts in no time.

A batch is planned and written down, handed over, and written down as done; a batch that is planned
and not done is handed over again, with the same rows. That is all that `enmasse.pipeline.batches`
stands on.
"""

import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Unavailable
from enmasse.pipeline import batches, gold_table, live, ranges, reading, tables
from enmasse.pipeline import options as option_table
from enmasse.pipeline.batches import Batches, Store
from enmasse.pipeline.incidents import Teller
from enmasse.pipeline.live import Live
from enmasse.pipeline.places import read

ROWS_OF_A_PARTITION = 40
"""Messages of one partition that a batch has at most."""
POINTS: dict[str, tuple[Any, str]] = {
    "append": (tables, "append_arrow"),
    "merge": (gold_table._Delta, "merge"),
    "tidy": (Store, "tidy"),
    "commit": (Live, "commit"),
    "within commit": (live, "put"),
    "send": (Teller, "_send"),
    "told": (Live, "told"),
}
"""Where a process is killed: before or after a call."""


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: tuple[Any, str], count: int, *, after: bool) -> None:
    """Let this process be killed at the so-manyth call of a point."""
    owner, name = point
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    @functools.wraps(real)
    def called(*values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            die()
        found = real(*values, **named)
        if calls == count:
            die()
        return found

    setattr(owner, name, called)


def kill_in(seconds: float) -> None:
    """Let this process be killed after a time, wherever it is."""
    timer = threading.Timer(seconds, die)
    timer.daemon = True
    timer.start()


class Log:
    """The plans of batches, and which are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def _write(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(text)
        new.rename(self._folder / name)

    def plan(self, number: int) -> dict[str, Any] | None:
        file = self._folder / f"plan-{number}"
        return dict(json.loads(file.read_text())) if file.exists() else None

    def write_plan(self, number: int, plan: dict[str, Any]) -> None:
        self._write(f"plan-{number}", json.dumps(plan))

    def is_done(self, number: int) -> bool:
        return (self._folder / f"done-{number}").exists()

    def write_done(self, number: int) -> None:
        self._write(f"done-{number}", "")


def run(file: Path, kill: dict[str, Any] | None, opened: Any = None) -> None:
    """Put all that the source of a pipeline has into its tables, or be killed on the way.

    Sets the event `opened`, if there is one, when live state is open.
    """
    if kill is not None:
        if "seconds" in kill:
            kill_in(kill["seconds"])
        else:
            kill_at(POINTS[kill["point"]], kill["count"], after=kill["after"])
    pipeline, places = read(file)
    (source,) = pipeline.spec.sources
    options = option_table.read(batches.options(source, places))
    log = Log(file.parent / "engine")
    with (
        places.taken(),
        closing(Live(places.live_url, pipeline.spec, pipeline.metadata.name)) as db,
    ):
        if opened is not None:
            opened.set()
        put = Batches(pipeline, source, Store(pipeline, places), db, [], [], lambda _: None)
        servers = {source.name: batches.server(source, places)}
        teller = Teller(pipeline.metadata.name, db, servers, SystemClock())
        number = 0
        while True:
            if not log.is_done(number):
                plan = log.plan(number) or _planned(options, log, number)
                if plan is None:
                    break
                put.put(_rows(options, plan), "q", number, None)
                _tell(teller)
                log.write_done(number)
            number += 1
        _tell(teller)


def _tell(teller: Teller) -> None:
    """Send alerts, waiting for a database that is away as a run does."""
    waits = reading.patience(batches.LIVE_TIMEOUT_S)
    while True:
        try:
            return teller.tell()
        except Unavailable as error:
            waits.wait(error)


def _planned(options: Any, log: Log, number: int) -> dict[str, Any] | None:
    """What the next batch has, or nothing."""
    before = log.plan(number - 1) if number else None
    starts = before["end"] if before else {}
    found = reading.state(options)
    ends = {}
    for part, state in found.partitions.items():
        start = starts.get(str(part), state.first)
        ends[str(part)] = min(state.next, start + ROWS_OF_A_PARTITION)
    start = {name: starts.get(name, 0) for name in ends}
    if start == ends:
        return None
    plan = {"start": start, "end": ends, "uid": found.uid}
    log.write_plan(number, plan)
    return plan


def _rows(options: Any, plan: dict[str, Any]) -> pyarrow.Table:
    rows = [
        batch
        for name, end in sorted(plan["end"].items())
        for batch in reading.batches(
            options, ranges.Slice(int(name), plan["start"][name], end, plan["uid"])
        )
    ]
    return pyarrow.Table.from_batches(rows)
