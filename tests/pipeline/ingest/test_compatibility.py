"""A document that changed since its tables were written is refused, and the remedy works."""

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

pytestmark = pytest.mark.timeout(300)

SOURCE = {"name": "s", "url": "amqp://h", "address": "x", "metrics": ["a"]}
STEP = """
from enmasse.pipeline.functions import step
@step(source="s")
def same(frame):
    return frame
"""


class Written:
    """A pipeline whose document a test rewrites."""

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


def test_document_may_change_until_its_source_is_read(written: Written) -> None:
    written.check()
    written.write({"metrics": ["b"]}, windows=["5m"])
    written.check()
    written.db.claim("t", "q")
    # the source that was not read yet may still change
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
def test_changed_document_is_refused_with_a_remedy(
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


def test_settings_that_affect_only_later_batches_may_change(written: Written) -> None:
    written.check()
    written.db.claim("s", "q")
    detector = {"name": "hot", "metric": "a", "threshold": {"above": 1}}
    sink = {"name": "out", "address": "z"}
    written.write({"maxRows": 7, "url": "amqp://other"}, detectors=[detector], sinks=[sink])
    written.check()
    # the order of windows does not matter
    written.write(windows=["1h", "1m"])
    written.check()


def test_comments_of_a_step_may_change_but_its_code_may_not(written: Written) -> None:
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


def test_rebuilt_parts_match_the_current_document(written: Written) -> None:
    written.check()
    for name in ("s", "t"):
        written.db.claim(name, name)
    written.write({"metrics": ["b"]}, windows=["1m"])
    written.made()
    with pytest.raises(Conflict, match="sources/s: metrics"):
        written.check()
    written.made("s")
    written.check()


def test_backfill_records_the_document_that_it_used(written: Written) -> None:
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
