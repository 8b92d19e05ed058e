"""The driver receives only counts and file names of a batch of any size, PostgreSQL included."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.pipeline.ingest import batches, envelope
from enmasse.pipeline.ingest.batches import Batches
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import read
from postgres_server import PostgresServer
from silver_readings import us

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
DEVICES = 500
FEW, MANY = 1_000, 1_000_000
BYTES_MAX = 64 << 10
"""By how much more the driver may receive for `MANY` than for `FEW` messages."""


def messages(spark: SparkSession, count: int) -> DataFrame:
    """Messages of the devices, made by tasks."""
    record = F.struct(
        F.concat(F.lit("d"), F.col("id") % DEVICES).alias("device"),
        (F.col("id") % 50).cast("double").alias("value"),
    )
    known = {
        "space": F.lit("sp"),
        "address": F.lit("x"),
        "partition": (F.col("id") % 2).cast("int"),
        "offset": F.col("id"),
        "enqueued_time": F.timestamp_micros(F.lit(us(0)) + F.col("id")),
        "body": F.encode(F.to_json(record), "utf-8"),
        "body_kind": F.lit("data"),
    }
    columns = [
        known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in from_arrow_schema(envelope.STORED)
    ]
    return spark.range(count, numPartitions=2).select(*columns)


def result_bytes(spark: SparkSession) -> int:
    """The bytes of all task results that the driver has received."""
    context: Any = spark.sparkContext
    jvm, store = context._jvm, context._jsc.sc().statusStore()
    none = context._gateway.new_array(jvm.double, 0)
    stages = store.stageList(None, False, False, none, jvm.java.util.ArrayList())
    return sum(stages.apply(number).resultSize() for number in range(stages.length()))


def test_driver_receives_no_more_bytes_for_a_thousandfold_batch(
    spark: SparkSession, tmp_path: Path, mortal_database: PostgresServer
) -> None:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    document = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Pipeline",
        "metadata": {"name": "p"},
        "spec": {"sources": [source]},
    }
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document))
    pipeline, paths = read(file)
    paths.state.mkdir()
    spark.sparkContext.setLocalProperty(batches.QUERY_ID, "q")
    told: list[dict[str, Any]] = []
    with closing(Live(mortal_database.new_database(), pipeline.spec, "p")) as db:
        store = Store(pipeline, paths)
        put = Batches(pipeline, pipeline.spec.sources[0], store, db, [], [], told.append)
        few, many = (
            put_batch(spark, put, number, count) for number, count in enumerate((FEW, MANY))
        )
        assert [row["readings"] for row in db.rows(database.PROGRESS)] == [FEW + MANY]
        assert len(db.rows(database.LATEST)) == DEVICES
    assert [one["readings"] for one in told] == [FEW, MANY]
    assert DeltaTable(paths.table("silver")).to_pyarrow_dataset().count_rows() == FEW + MANY
    assert many - few < BYTES_MAX, (few, many)


def put_batch(
    spark: SparkSession, put: Callable[[DataFrame, int], None], number: int, count: int
) -> int:
    """Write a batch of `count` messages; return the bytes of results that the driver received."""
    before = result_bytes(spark)
    put(messages(spark, count), number)
    return result_bytes(spark) - before
