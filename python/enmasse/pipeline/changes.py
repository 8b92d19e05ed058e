"""What the tables were made by: a document that has changed since is not mixed with them.

For the windows, and for each source that has been read, live state keeps what of the document makes
gold and silver what they are. Detectors, sinks and places are no part of it: they say what is done
with readings from now on.
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
from enmasse.pipeline.places import Places
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

WINDOWS = "windows"
PARSING = (
    *("format", "device", "time", "metric", "value", "text", "unit", "metrics", "time_unit"),
    *("csv_header", "csv_delimiter", "ahead", "late"),
)
"""Fields of a source by which its messages become readings."""
STEPS = "functions"
Part = dict[str, Any]


def parts(pipeline: Pipeline, places: Places, steps: Sequence[Step]) -> dict[str, Part]:
    """Return what of a document makes the tables, by `windows` and `sources/NAME`.

    A file of functions counts without its comments, for sources that have steps; what it imports
    does not.
    """
    found: dict[str, Part] = {WINDOWS: {WINDOWS: sorted(pipeline.spec.windows)}}
    for source in pipeline.spec.sources:
        mine = _parsing(source)
        if places.functions and any(one.source in (functions.ALL, source.name) for one in steps):
            mine[STEPS] = _digest(places.functions)
        found[_key(source.name)] = mine
    return found


def check(live: Live, pipeline: Pipeline, places: Places, steps: Sequence[Step]) -> None:
    """Raise Conflict if tables were made by another document; else keep that it is this one."""
    now, known = parts(pipeline, places, steps), live.documents()
    read = {_key(row["source"]) for row in live.rows(PROGRESS)}
    if read:
        read.add(WINDOWS)
    for name in sorted(known.keys() & now.keys() & read):
        was, part = json.loads(known[name]), now[name]
        if part == was:
            continue
        fields = [one for one in sorted(was | part) if was.get(one) != part.get(one)]
        raise Conflict(Code.STATE_CONFLICT, _refusal(name, fields, pipeline, places))
    # what nothing was made by yet may change as it likes
    _keep(live, now)


def made(
    live: Live, pipeline: Pipeline, places: Places, steps: Sequence[Step], sources: Iterable[str]
) -> None:
    """Keep that gold, and silver of these sources, are made by the document of now."""
    names = {WINDOWS, *map(_key, sources)}
    found = parts(pipeline, places, steps)
    _keep(live, {name: part for name, part in found.items() if name in names})


def _keep(live: Live, found: dict[str, Part]) -> None:
    live.keep_documents({name: json.dumps(part) for name, part in found.items()})


def _refusal(name: str, fields: Sequence[str], pipeline: Pipeline, places: Places) -> str:
    is_windows = name == WINDOWS
    what = "spec.windows" if is_windows else f"{name}: {', '.join(fields)}"
    said = f"{what} changed since the tables were made"
    how = "--gold-only" if is_windows else f"--source {name.partition('/')[2]}"
    part = "" if is_windows else " (with --start only what came since is made anew)"
    return (
        f"{said}: make them anew with enmasse pipeline backfill {how} -f {places.document}{part},"
        " or set it back"
    )


def _key(source: str) -> str:
    return f"sources/{source}"


def _parsing(source: Source) -> Part:
    found = source.model_dump(mode="json", include=set(PARSING))
    return {type(source).model_fields[name].alias or name: value for name, value in found.items()}


def _digest(path: Path) -> str:
    """What a file of Python does, whatever its comments and lines are."""
    return hashlib.sha256(ast.dump(ast.parse(path.read_text("utf-8"))).encode()).hexdigest()
