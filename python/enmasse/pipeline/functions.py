"""Steps: functions from DataFrame to DataFrame in a Python file next to the document.

    from enmasse.pipeline.functions import step

    @step
    def celsius(frame):
        return frame.withColumn("temperature", (frame.temperature - 32) / 1.8)

A step receives the decoded records of a batch: whole messages (`docs/guide/spark.md`) with the
fields that the source names. It may change, add and drop rows, and has to keep the columns. Bronze
has the original messages. Steps run in the order of the file.
"""

import runpy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from enmasse.base.errors import Invalid, Missing
from enmasse.pipeline import failures
from enmasse.pipeline.session import is_jvm_lost

Function = Callable[[DataFrame], object]
"""A step as written; its result is checked."""
MARK = "__enmasse_source__"
ALL = ""
"""The source of a step for every source."""


@dataclass(frozen=True)
class Step:
    """One function, and its source."""

    name: str
    source: str
    function: Function


def step(function: Function | None = None, *, source: str = ALL) -> Any:
    """Make a function part of the pipeline: for every source, or for the named one."""

    def mark(marked: Function) -> Function:
        setattr(marked, MARK, source)
        return marked

    return mark if function is None else mark(function)


def load(path: Path, sources: Iterable[str]) -> list[Step]:
    """Return the steps of a file, in order.

    Raises Missing if there is no file, Invalid if it raises or names an unknown source.
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


def of_source(steps: Iterable[Step], source: str) -> list[Step]:
    """Return the steps of one source."""
    return [one for one in steps if one.source in (ALL, source)]


def apply(frame: DataFrame, steps: Sequence[Step]) -> DataFrame:
    """Return the frame after all steps; nothing is computed yet.

    Raises Invalid that names the step if one raises, returns no frame or drops a column.
    """
    columns = frame.columns
    for one in steps:
        with _attributed_to(f"step {one.name}"):
            result = one.function(frame)
        if not isinstance(result, DataFrame):
            kind = type(result).__name__
            raise Invalid("E1003", f"step {one.name} returns {kind}; return a DataFrame")
        frame = result
        lost = [name for name in columns if name not in frame.columns]
        if lost:
            raise Invalid("E1003", f"step {one.name} drops column {lost[0]}; keep it")
    return frame.select(*(f"`{name}`" for name in columns))


@contextmanager
def computing(steps: Sequence[Step]) -> Iterator[None]:
    """Raise errors of computing the rows of steps as Invalid that names all of them.

    Failures of Spark are raised unchanged.
    """
    if not steps:
        yield
        return
    with _attributed_to("steps " + ", ".join(one.name for one in steps)):
        yield


@contextmanager
def _attributed_to(owner: str) -> Iterator[None]:
    """Name the owner of an error, unless Spark itself failed."""
    try:
        yield
    except Exception as error:
        if is_jvm_lost(error) or failures.spark_failure(error):
            raise
        kind = "" if isinstance(error, PythonException) else f"{type(error).__name__}: "
        raise Invalid("E1003", f"{owner}: {kind}{failures.summary(error)}") from error
