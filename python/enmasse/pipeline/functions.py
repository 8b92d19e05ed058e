"""What a document cannot say: functions from DataFrame to DataFrame in a file beside it.

    from enmasse.pipeline.functions import step

    @step
    def celsius(frame):
        return frame.withColumn("temperature", (frame.temperature - 32) / 1.8)

A step gets the decoded records of a batch: whole messages (`docs/guide/spark.md`) with the fields
that the source names. It may change, add and leave out rows, and has to keep the columns. Bronze
has the messages as they came. Steps run in the order of the file.
"""

import runpy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from enmasse.base.errors import Invalid, Missing
from enmasse.pipeline import endings

Function = Callable[[DataFrame], object]
"""A step as it was written: what it gives is checked."""
MARK = "__enmasse_source__"
ALL = ""
"""Of a step for every source."""


@dataclass(frozen=True)
class Step:
    """One function, and the source it is for."""

    name: str
    source: str
    function: Function


def step(function: Function | None = None, *, source: str = ALL) -> Any:
    """Make a function part of the pipeline: for every source, or for the one that is named."""

    def mark(marked: Function) -> Function:
        setattr(marked, MARK, source)
        return marked

    return mark if function is None else mark(function)


def load(path: Path, sources: Iterable[str]) -> list[Step]:
    """Return the steps of a file, in their order.

    Raises Missing if it is not there, Invalid if it cannot be run or names no source of these.
    """
    if not path.is_file():
        raise Missing("E3000", f"spec.functions: there is no file {path}")
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise Invalid(
            "E1003", f"spec.functions: {path}: {type(error).__name__}: {error}"
        ) from error
    steps = [
        Step(name, getattr(value, MARK), value)
        for name, value in names.items()
        if hasattr(value, MARK)
    ]
    known = {ALL, *sources}
    for one in steps:
        if one.source not in known:
            raise Invalid("E1003", f"{path}: {one.name}: no source is called {one.source!r}")
    return steps


def applied(frame: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Return what steps make of records, of which nothing is computed yet.

    Raises Invalid that names the step if one raises, gives no frame or loses a column.
    """
    columns = frame.columns
    for one in steps:
        with _told(f"step {one.name}"):
            made = one.function(frame)
        if not isinstance(made, DataFrame):
            what = type(made).__name__
            raise Invalid("E1003", f"step {one.name} gives {what}; return a DataFrame")
        frame = made
        lost = [name for name in columns if name not in frame.columns]
        if lost:
            raise Invalid("E1003", f"step {one.name} leaves out column {lost[0]}; keep it")
    return frame.select(*(f"`{name}`" for name in columns))


@contextmanager
def computed(steps: Sequence[Step]) -> Iterator[None]:
    """Name all steps in an error of computing their rows, as Invalid.

    What a process of Spark died of is raised as it is.
    """
    if not steps:
        yield
        return
    with _told("steps " + ", ".join(one.name for one in steps)):
        yield


@contextmanager
def _told(who: str) -> Iterator[None]:
    """Say whose error it is; the death of a process of Spark, or of Spark, is none of theirs."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError):
        raise
    except Exception as error:
        if endings.death(error):
            raise
        kind = "" if isinstance(error, PythonException) else f"{type(error).__name__}: "
        raise Invalid("E1003", f"{who}: {kind}{endings.reason(error)}") from error
