"""A document that changed since the tables were made: it is refused, and the mend works."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_runs import run_backfill
from enmasse.base.errors import Conflict
from enmasse.pipeline.ingest import batches, compatibility
from enmasse.pipeline.ingest.backfill import Backfill
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import read

SOURCE = {"name": "s", "url": "amqp://h", "address": "x", "metrics": ["a"]}
STEP = """
from enmasse.pipeline.functions import step
@step(source="s")
def same(frame):
    return frame
"""


class Written:
    """A pipeline whose document is written again and again."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pipeline.yaml"
        (folder / "f.py").write_text(STEP)
        self.write()
        pipeline, paths = read(self.file)
        paths.state.mkdir()
        self.db = Live(paths.live_url, pipeline.spec, "p")

    def write(self, source: dict[str, Any] | None = None, **spec: Any) -> None:
        sources = [SOURCE | (source or {}), SOURCE | {"name": "t", "address": "y"}]
        whole = {"sources": sources, "functions": "f.py"} | spec
        document = {"apiVersion": "enmasse.io/v1beta1", "kind": "Pipeline"}
        document |= {"metadata": {"name": "p"}, "spec": whole}
        self.file.write_text(yaml.safe_dump(document))

    def check(self) -> None:
        pipeline, paths = read(self.file)
        compatibility.check(self.db, pipeline, paths, batches.load_steps(pipeline, paths))

    def made(self, *sources: str) -> None:
        pipeline, paths = read(self.file)
        steps = batches.load_steps(pipeline, paths)
        compatibility.record(self.db, pipeline, paths, steps, sources)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path)
    with closing(made.db):
        yield made


def test_until_a_source_is_read_its_document_may_change(written: Written) -> None:
    written.check()
    written.write({"metrics": ["b"]}, windows=["5m"])
    written.check()
    written.db.claim("t", "q")
    # what was not read yet is free all the same
    written.write({"metrics": ["a"]}, windows=["5m"])
    written.check()
    written.write({"metrics": ["a"]}, windows=["1m"])
    with pytest.raises(Conflict, match="spec.windows changed"):
        written.check()


@pytest.mark.parametrize(
    ("source", "spec", "said"),
    [
        ({}, {"windows": ["1m"]}, "spec.windows changed .* backfill --gold-only -f .*, or undo"),
        ({"metrics": ["b"], "late": "1h"}, {}, "sources/s: late, metrics changed .*--source s -f"),
        ({"timeUnit": "ms"}, {}, "sources/s: timeUnit changed"),
    ],
)
def test_tables_of_another_document_are_refused_and_the_mend_is_named(
    written: Written, source: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    written.check()
    for name in ("s", "t"):
        written.db.claim(name, name)
    written.check()
    written.write(source, **spec)
    for _ in range(2):
        with pytest.raises(Conflict, match=said):
            written.check()
    written.write()
    written.check()


def test_what_only_says_what_is_done_from_now_on_may_change(written: Written) -> None:
    written.check()
    written.db.claim("s", "q")
    detector = {"name": "hot", "metric": "a", "threshold": {"above": 1}}
    sink = {"name": "out", "address": "z"}
    written.write({"maxRows": 7, "url": "amqp://other"}, detectors=[detector], sinks=[sink])
    written.check()
    # the same windows in another order are the same
    written.write(windows=["1h", "1m"])
    written.check()


def test_a_step_counts_without_its_comments(written: Written) -> None:
    written.check()
    written.db.claim("s", "q")
    written.db.claim("t", "r")
    functions = written.file.with_name("f.py")
    functions.write_text(f"# a comment\n{STEP}")
    written.check()
    functions.write_text(STEP.replace("return frame", "return frame.where('a > 1')"))
    with pytest.raises(Conflict, match="sources/s: functions changed"):
        written.check()
    written.made("s")
    # the other source has no step
    written.check()


def test_what_is_made_anew_is_of_the_document_of_now(written: Written) -> None:
    written.check()
    for name in ("s", "t"):
        written.db.claim(name, name)
    written.write({"metrics": ["b"]}, windows=["1m"])
    written.made()
    with pytest.raises(Conflict, match="sources/s: metrics"):
        written.check()
    written.made("s")
    written.check()


def test_a_backfill_says_which_document_it_was_by(written: Written) -> None:
    written.check()
    written.db.claim("s", "q")
    written.write({"metrics": ["b"]}, windows=["1m"])
    assert run_backfill(written.file)[0].source == "s"
    written.check()
    written.write({"metrics": ["b"]}, windows=["5m"])
    pipeline, paths = read(written.file)
    work = Backfill(pipeline, paths, written.db)
    work.finish([])
    written.check()
    assert {row["part"] for row in written.db.rows(database.DOCUMENTS)} == {
        "windows",
        "sources/s",
        "sources/t",
    }
