"""Streaming queries in a process of their own, to be killed.

Usage: `job.py FOLDER URL once|on QUERIES`, the last a JSON object of what queries read and where
their rows go: `{"NAME": {"address": "..", "to": "files|delta|ADDRESS", "options": {}}}`.
Ends with EX_TEMPFAIL if a process of Spark died of itself, which Spark leaves to who started it.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from enmasse.pipeline import failures
from enmasse.pipeline.ingest import bronze
from spark_session import session

POLL_S = 0.1


def written(frame: DataFrame, folder: Path, url: str, to: str) -> DataStreamWriter:
    """What writes the rows to where the test looks for them."""
    if to == "files":
        return frame.writeStream.format("parquet").option("path", str(folder / "table"))
    if to == "delta":
        table = bronze.table(str(folder / "bronze"))
        return frame.writeStream.foreachBatch(bronze.writer(table, "job"))
    # behind a shuffle, so that rows come in another order when a batch is repeated
    rows = frame.repartition(2, "device").selectExpr("cast(cast(value as int) as string) as body")
    return rows.writeStream.format("enmasse").option("url", url).option("address", to)


def query(spark: SparkSession, folder: Path, url: str, what: dict[str, Any]) -> DataStreamWriter:
    """One query, whose files lie in a folder."""
    reader = spark.readStream.format("enmasse").options(url=url, address=what["address"])
    reader = reader.options(maxRowsPerTrigger="300", rowsPerTask="100", **what["options"])
    writer = written(reader.load(), folder, url, what["to"])
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def work(
    spark: SparkSession, folder: Path, url: str, once: bool, queries: dict[str, dict[str, Any]]
) -> None:
    """Run the queries; raises what ended one."""
    writers = [query(spark, folder / name, url, what) for name, what in queries.items()]
    if once:
        started = [writer.trigger(availableNow=True).start() for writer in writers]
        for one in started:
            one.awaitTermination()
        print("done", flush=True)
        return
    started = [writer.trigger(processingTime="0 seconds").start() for writer in writers]
    seen = dict.fromkeys(range(len(started)), -1)
    while True:
        for number, one in enumerate(started):
            for progress in one.recentProgress:
                if progress.batchId > seen[number] and progress.numInputRows:
                    seen[number] = progress.batchId
                    print(f"batch {number} {progress.batchId}", flush=True)
            if (error := one.exception()) is not None:
                raise error
        started[0].awaitTermination(POLL_S)


def main(folder: Path, url: str, once: bool, queries: dict[str, dict[str, Any]]) -> None:
    with session(folder) as spark:
        try:
            work(spark, folder, url, once, queries)
        except Exception as error:
            if failures.spark_failure(error) is None:
                raise
            print(error, file=sys.stderr, flush=True)
            raise SystemExit(os.EX_TEMPFAIL) from None


if __name__ == "__main__":
    folder, url, once, queries = sys.argv[1:]
    main(Path(folder), url, once == "once", json.loads(queries))
