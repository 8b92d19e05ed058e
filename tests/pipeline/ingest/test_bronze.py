"""The columns of bronze, and the start time of the batch of a message."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.pipeline.ingest import bronze, envelope

pytestmark = pytest.mark.timeout(300)


class Interrupted(Exception):
    """Interrupts a batch."""


def test_repeated_batch_has_the_time_of_its_first_attempt(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("here\nsilent\n")
    found: list[dict[str, datetime | None]] = []

    def put(frame: DataFrame, batch_id: int) -> None:
        found.append({row.value: row.batch_time for row in frame.collect()})
        if len(found) < 3:
            raise Interrupted

    said = F.when(F.col("value") == "here", F.lit(datetime(2026, 1, 31, tzinfo=UTC)))
    lines = spark.readStream.text(str(tmp_path / "in")).withColumn("enqueued_time", said)
    writer = bronze.with_batch_time(lines).writeStream.foreachBatch(put).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            writer.start().awaitTermination()
    writer.start().awaitTermination()
    first, *again = found
    assert again == [first, first]
    assert first["here"] is None and first["silent"] is not None


def test_columns_that_earlier_versions_did_not_write_are_null() -> None:
    now = pyarrow.Table.from_pylist([{"address": "a", "body": b"x"}], envelope.STORED)
    new = ["user_id", "application_property_types", "batch_time"]
    found = envelope.conform(now.drop_columns(new))
    assert found == now and found["user_id"].null_count == 1


def test_message_without_a_batch_time_is_stored_with_null() -> None:
    row = {"address": "a", "offset": 3, "body": b"x"}
    batch = pyarrow.Table.from_pylist([row], envelope.MESSAGE)
    kept = envelope.conform(batch)
    assert kept.schema == envelope.STORED
    assert kept["batch_time"].to_pylist() == [None]
    assert envelope.conform(kept) == kept
