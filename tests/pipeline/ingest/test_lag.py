"""Lag from the checkpoint and the server, without a run."""

import json
from pathlib import Path

from enmasse.pipeline.connector import options, reading
from enmasse.pipeline.ingest import batches, lag
from enmasse.pipeline.paths import Paths, read
from enmasse.resources.pipeline import Source
from pipeline_runs import document, message
from published_streams import Log


def opened(file: Path) -> tuple[Source, Paths]:
    pipeline, paths = read(file)
    return pipeline.spec.sources[0], paths


def commit(folder: Path, batch: int, end: dict[str, object]) -> None:
    """Write what Spark writes for a committed batch."""
    for name, lines in (("offsets", ["v1", "{}", json.dumps(end)]), ("commits", ["v1", "{}"])):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / str(batch)).write_text("\n".join(lines))


def test_lag_grows_without_a_run(log: Log, tmp_path: Path) -> None:
    source, paths = opened(document(tmp_path / "p", log))
    log.publish(message(number) for number in range(20))
    before = lag.unread(source, paths)
    assert before is not None and sum(before.values()) == 20
    state = reading.state(options.read(batches.options(source, paths)))
    ends = {number: part.next for number, part in state.partitions.items()}
    checkpoint = Path(paths.checkpoint("s"))
    commit(checkpoint, 9, state.offsets(dict.fromkeys(ends, 0)))
    commit(checkpoint, 10, state.offsets(ends))
    # a batch that was planned and not committed is unread
    (checkpoint / "offsets" / "11").write_text("v1\n{}\n{}")
    assert lag.unread(source, paths) == dict.fromkeys(ends, 0)
    log.publish(message(number) for number in range(3))
    after = lag.unread(source, paths)
    assert after is not None and sum(after.values()) == 3
    assert lag.position(str(checkpoint)) == state.offsets(ends)


def test_lag_of_a_queue_and_of_an_unavailable_server_is_unknown(log: Log, tmp_path: Path) -> None:
    queue = document(tmp_path / "q", log, {"spool": "spool"})
    assert lag.unread(*opened(queue)) is None
    away = document(tmp_path / "p", log, {"url": "amqp://127.0.0.1:1"})
    assert lag.unread(*opened(away)) is None
