"""A queue in a real Spark, through a spool."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from published_streams import Log, readings

pytestmark = pytest.mark.timeout(400)
TYPED = {"decode": "json", "columns": "space, offset, device string, value double"}


def test_spark_reads_a_queue_once_in_bounded_batches_with_its_lag(
    spark: SparkSession, queue: Log, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"

    def run() -> list[tuple[int, int, int]]:
        """Append pending messages to a table; return rows, end and lag of each batch."""
        reader = spark.readStream.format("enmasse").options(url=queue.url, address=queue.address)
        frame = reader.options(spool=str(spool), maxRowsPerTrigger="300", **TYPED).load()
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found = []
        for progress in query.recentProgress:
            (source,) = progress.sources
            ends = [json.loads(place)["0"] for place in (source.endOffset, source.latestOffset)]
            found.append((progress.numInputRows, ends[0], ends[1] - ends[0]))
        return found

    queue.publish(readings(0, 700))
    assert [batch[:2] for batch in run()] == [(300, 300), (300, 600), (100, 700)]
    # the last batch of a run is committed by the next
    assert any(path.suffix == ".messages" for path in spool.iterdir())
    queue.publish(readings(700, 50))
    ((rows_in, end, lag),) = run()
    # the server may still count messages that were accepted a moment ago
    assert (rows_in, end) == (50, 750) and 0 <= lag <= 50
    table = spark.read.parquet(str(tmp_path / "table"))
    assert [row.space for row in table.select("space").distinct().collect()] == ["default.default"]
    rows = table.select("offset", "value").collect()
    assert sorted((row.offset, row.value) for row in rows) == [(n, float(n)) for n in range(750)]
