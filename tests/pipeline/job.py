"""A streaming query in a process of its own, to be killed.

Usage: `job.py FOLDER URL ADDRESS OPTIONS once|on parquet|bronze|TARGET`, the last an address.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from enmasse.pipeline import bronze
from spark_session import session

POLL_S = 0.1


def written(frame: DataFrame, folder: Path, url: str, to: str) -> DataStreamWriter:
    """What writes the rows to where the test looks for them."""
    if to == "parquet":
        return frame.writeStream.format("parquet").option("path", str(folder / "table"))
    if to == "bronze":
        table = bronze.table(str(folder / "bronze"))
        return frame.writeStream.foreachBatch(bronze.writer(table, "job"))
    # behind a shuffle, so that rows come in another order when a batch is repeated
    rows = frame.repartition(2, "device").selectExpr("cast(cast(value as int) as string) as body")
    return rows.writeStream.format("enmasse").option("url", url).option("address", to)


def main(folder: Path, url: str, address: str, options: str, once: bool, to: str) -> None:
    with session(folder) as spark:
        reader = spark.readStream.format("enmasse").options(url=url, address=address)
        reader = reader.options(maxRowsPerTrigger="300", rowsPerTask="100", **json.loads(options))
        writer = written(reader.load(), folder, url, to)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        if once:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            print("done", flush=True)
            return
        query = writer.trigger(processingTime="0 seconds").start()
        seen = -1
        while query.isActive:
            for progress in query.recentProgress:
                if progress.batchId > seen and progress.numInputRows:
                    seen = progress.batchId
                    print(f"batch {seen} {progress.numInputRows}", flush=True)
            query.awaitTermination(POLL_S)
        raise SystemExit(str(query.exception()))


if __name__ == "__main__":
    folder, url, address, options, once, to = sys.argv[1:]
    main(Path(folder), url, address, options, once == "once", to)
