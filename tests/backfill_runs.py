"""A backfill by hand, and one that is killed at a point of its work."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import batch_engine
from enmasse.pipeline.ingest import backfill
from enmasse.pipeline.ingest.backfill import Backfill, Part
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.tables import delta
from pipeline_runs import open_pipeline
from spark_session import session


def run_backfill(file: Path, *parts: Part) -> list[backfill.BackfillResult]:
    """What the command does, without the command, and without gold."""
    pipeline, paths, db = open_pipeline(file)
    with closing(db), paths.locked(), session(file.parent / "spark") as spark:
        work = Backfill(pipeline, paths, db)
        found = work.parts(parts or [Part("s")])
        done = work.run(spark, found)
        work.finish(found)
    return done


POINTS: list[tuple[Any, str, int]] = [
    (backfill.Backfill, "_note", 1),
    (delta, "replace_arrow", 1),
    (delta, "replace_arrow", 2),
    (Live, "recount", 1),
]


def killed_backfill(file: Path, point: int, after: bool) -> None:
    owner, name, count = POINTS[point]
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def called(*values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            batch_engine.die()
        found = real(*values, **named)
        if calls == count:
            batch_engine.die()
        return found

    setattr(owner, name, called)
    run_backfill(file)
