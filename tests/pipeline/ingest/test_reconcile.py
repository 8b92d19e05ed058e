"""Bronze is compared with the stream that it was read from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Missing
from enmasse.messaging import Data, Message
from enmasse.pipeline.ingest import bronze, report
from enmasse.pipeline.ingest.reconcile import reconcile
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from platform_process import Platform
from published_streams import Log, readings

pytestmark = pytest.mark.timeout(400)


def fill(spark: SparkSession, source: dict[str, str], folder: Path) -> Table:
    """Read a stream into bronze."""
    table = bronze.table(str(folder / "bronze"))
    stream = spark.readStream.format("enmasse").options(**source).load()
    query = stream.writeStream.foreachBatch(bronze.writer(table, "q"))
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return table


def differences(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that differ."""
    return [part for part in found["parts"] if not part["exact"]]


def fault_of(partition: int, offset: int, what: str) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "what": what}


def test_reconcile_is_exact_or_names_missing_and_repeated_messages(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    messages = [
        replace(one, application_properties={"n": n}) for n, one in enumerate(readings(0, 60))
    ]
    log.publish(messages)
    source = {"url": log.url, "address": log.address, "space": "default"}
    table = fill(spark, source, tmp_path)
    found = reconcile(spark, source, table)
    assert found["exact"] and found["messages"] == 60
    assert {hour["partition"] for hour in found["parts"]} == {0, 1}
    assert sum(hour["bronze"]["offsets"] for hour in found["parts"]) == 60
    assert all(hour["stream"] == hour["bronze"] for hour in found["parts"])
    part = reconcile(spark, source, table, start='{"0": 3, "1": 4}', end='{"0": 7, "1": 4}')
    assert part["exact"] and part["messages"] == 4
    # a message that is published later is missing
    log.publish(readings(60, 1))
    later = reconcile(spark, source, table)
    (missing,) = differences(later)
    assert missing["stream"]["count"] - missing["bronze"]["count"] == 1
    assert later["messages"] == 61
    (fault,) = later["faults"]
    assert (fault["partition"], fault["what"]) == (missing["partition"], "missing")
    # or not read yet, if that is how far the query is
    position = found["end"]
    unread = reconcile(spark, source, table, read=position)
    assert unread["exact"] and (unread["unread"], unread["messages"]) == (1, 60)
    # the position of a query on another stream says nothing
    assert not reconcile(spark, source, table, read=position | {"uid": "other"})["exact"]
    # two messages are in bronze twice, and the copy of one of them differs
    rows = delta.read(spark, table).drop("date").where("partition = 0 and offset in (1, 2)")
    changed = rows.withColumn("subject", F.when(F.col("offset") == 2, "new"))
    bronze.append(changed, table, "intruder", 0)
    twice = reconcile(spark, source, table, end='{"0": 5, "1": 5}')
    (doubled,) = differences(twice)
    assert doubled["bronze"]["count"] - doubled["bronze"]["offsets"] == 2
    assert twice["faults"] == [fault_of(0, 1, "repeated"), fault_of(0, 2, "repeated")]


def test_messages_past_retention_must_be_in_bronze_once(
    spark: SparkSession, streams: Platform, tmp_path: Path
) -> None:
    source = {"url": streams.url(), "address": "short2"}
    log = Log(streams.url(), "short2")
    log.publish(readings(0, 20))
    table = fill(spark, source, tmp_path)
    log.publish([Message(body=Data([b"x" * 4000])) for _ in range(100)])
    found = reconcile(spark, source, table, start='{"0": 0, "1": 0}')
    gone = [part for part in differences(found) if "noLongerKept" in part]
    # messages that expired before they were read are lost
    assert len(gone) == 2 and sum(part["bronze"]["count"] for part in gone) == 20
    faults = found["faults"]
    named = {(one["partition"], one["offset"]) for one in faults if one["what"] == "missing"}
    lost = [(part["partition"], part["noLongerKept"]["next"] - 1) for part in gone]
    assert set(lost) <= named and len(faults) == len(named)
    first = [min(10, part["noLongerKept"]["next"]) for part in gone]
    bounded = reconcile(
        spark, source, table, start='{"0": 0, "1": 0}', end=f'{{"0": {first[0]}, "1": {first[1]}}}'
    )
    assert bounded["exact"] and bounded["messages"] == 20 and len(bounded["parts"]) == 2
    # the number of expired messages that matched the selector is unknown
    chosen = reconcile(spark, source | {"selector": "1 = 1"}, table, start='{"0": 0, "1": 0}')
    gone = [part for part in chosen["parts"] if "noLongerKept" in part]
    assert chosen["exact"] is False and all(part["exact"] for part in gone)
    assert sum(part["bronze"]["offsets"] for part in gone) == 20


def test_messages_that_a_selector_excludes_are_not_missing(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    messages = [
        replace(one, application_properties={"n": n}) for n, one in enumerate(readings(0, 20))
    ]
    log.publish(messages)
    source = {"url": log.url, "address": log.address, "selector": "n >= 5"}
    table = fill(spark, source, tmp_path)
    found = reconcile(spark, source, table)
    assert found["exact"] and found["messages"] == 15
    # another selector gives differences
    assert not reconcile(spark, source | {"selector": "n >= 4"}, table)["exact"]


def test_an_empty_stream_is_exact(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    source = {"url": log.url, "address": log.address}
    table = bronze.table(str(tmp_path / "bronze"))
    found = reconcile(spark, source, table)
    assert found["exact"] and found["messages"] == 0
    log.publish(readings(0, 1))
    with pytest.raises(Missing, match="no Delta table"):
        reconcile(spark, source, table)


def test_the_report_names_offsets_and_what_is_not_read_yet() -> None:
    faults = [fault_of(0, 7, "missing"), fault_of(1, 3, "repeated"), fault_of(0, 9, "missing")]
    source = {"source": "s", "messages": 3, "exact": False, "parts": [], "unread": 1200}
    source["faults"] = faults
    gold = {"windows": 0, "exact": True, "differing": 0, "versionsBehind": 0, "differences": []}
    assert report.text({"sources": [source], "gold": gold}).splitlines()[:3] == [
        "s: 3 messages, bronze differs; 1,200 are not read yet:",
        "  missing in partition 0: offsets 7, 9",
        "  repeated in partition 1: offsets 3",
    ]


def test_rows_without_a_space_count_as_those_of_the_announced_one(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.publish(readings(0, 20))
    source = {"url": log.url, "address": log.address}
    table = fill(spark, source, tmp_path)
    rows = delta.read(spark, table).drop("date")
    earlier = rows.where("offset < 5").withColumn("space", F.lit(None).cast("string"))
    # earlier versions had the position of a message among its annotations, too
    placed = F.create_map(F.lit("x-stream-offset"), F.col("offset").cast("string"))
    earlier = earlier.withColumn("annotations", placed)
    older = bronze.table(str(tmp_path / "older"))
    bronze.append(earlier, older, "earlier", 0)
    bronze.append(rows.where("offset >= 5"), older, "now", 0)
    found = reconcile(spark, source, older)
    assert found["exact"] and found["messages"] == 20
    # rows of another space are not of this source
    bronze.append(rows.withColumn("space", F.lit("other")), older, "other", 0)
    assert reconcile(spark, source, older) == found
