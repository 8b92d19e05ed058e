"""Whether tables can be extended by a document: one that has changed since must not be mixed in.

For the windows, and for each source that was read, live state keeps the part of the document that
determines silver and gold. Detectors, sinks and paths are not part of it: they apply to new
readings only.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from enmasse.base.errors import Code, Conflict
from enmasse.pipeline import functions
from enmasse.pipeline.functions import Step
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.schema import PROGRESS
from enmasse.pipeline.paths import Paths
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

WINDOWS = "windows"
PARSING = (
    *("format", "device", "time", "metric", "value", "text", "unit", "metrics", "time_unit"),
    *("csv_header", "csv_delimiter", "ahead", "late"),
)
"""Fields of a source that determine the readings of its messages."""
STEPS = "functions"
Part = dict[str, Any]


def parts(pipeline: Pipeline, paths: Paths, steps: Sequence[Step]) -> dict[str, Part]:
    """Return the parts of a document that determine tables, by `windows` and `sources/NAME`.

    The file of functions counts without comments, for sources with steps; its imports do not.
    """
    found: dict[str, Part] = {WINDOWS: {WINDOWS: sorted(pipeline.spec.windows)}}
    for source in pipeline.spec.sources:
        part = _parsing(source)
        if paths.functions and functions.of_source(steps, source.name):
            part[STEPS] = _digest(paths.functions)
        found[_key(source.name)] = part
    return found


def check(live: Live, pipeline: Pipeline, paths: Paths, steps: Sequence[Step]) -> None:
    """Raise Conflict if tables were made by another document; else record this one."""
    now, recorded = parts(pipeline, paths, steps), live.documents()
    used = {_key(row["source"]) for row in live.rows(PROGRESS)}
    if used:
        used.add(WINDOWS)
    for name in sorted(recorded.keys() & now.keys() & used):
        before, part = json.loads(recorded[name]), now[name]
        if part == before:
            continue
        fields = [one for one in sorted(before | part) if before.get(one) != part.get(one)]
        raise Conflict(Code.STATE_CONFLICT, _refusal(name, fields, pipeline, paths))
    # parts that no table depends on yet may change
    _record(live, now)


def record(
    live: Live, pipeline: Pipeline, paths: Paths, steps: Sequence[Step], sources: Iterable[str]
) -> None:
    """Record that gold, and silver of these sources, are made by this document."""
    names = {WINDOWS, *map(_key, sources)}
    found = parts(pipeline, paths, steps)
    _record(live, {name: part for name, part in found.items() if name in names})


def _record(live: Live, found: dict[str, Part]) -> None:
    live.record_documents({name: json.dumps(part) for name, part in found.items()})


def _refusal(name: str, fields: Sequence[str], pipeline: Pipeline, paths: Paths) -> str:
    is_windows = name == WINDOWS
    changed = "spec.windows" if is_windows else f"{name}: {', '.join(fields)}"
    option = "--gold-only" if is_windows else f"--source {name.partition('/')[2]}"
    hint = "" if is_windows else " (with --start only later messages are processed again)"
    return (
        f"{changed} changed since the tables were made: rebuild them with"
        f" enmasse pipeline backfill {option} -f {paths.document}{hint}, or undo the change"
    )


def _key(source: str) -> str:
    return f"sources/{source}"


def _parsing(source: Source) -> Part:
    # quantities as numbers, as earlier versions recorded them
    found = source.model_dump(mode="python", include=set(PARSING))
    named = {type(source).model_fields[name].alias or name: found[name] for name in found}
    return dict(json.loads(json.dumps(named)))


def _digest(path: Path) -> str:
    """A digest of Python code that ignores comments and layout."""
    return hashlib.sha256(ast.dump(ast.parse(path.read_text("utf-8"))).encode()).hexdigest()
