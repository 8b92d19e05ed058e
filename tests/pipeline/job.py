"""A streaming query in a process of its own, to be killed.

Usage: `job.py FOLDER URL ADDRESS OPTIONS once|on`.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from spark_session import session


def main(folder: Path, url: str, address: str, options: str, once: bool) -> None:
    with session(folder) as spark:
        frame: DataFrame = (
            spark.readStream.format("enmasse")
            .options(
                url=url,
                address=address,
                maxRowsPerTrigger="300",
                rowsPerTask="100",
                **json.loads(options),
            )
            .load()
        )
        writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        if once:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            print("done", flush=True)
            return
        query = writer.trigger(processingTime="0 seconds").start()
        seen = -1
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress.batchId != seen:
                seen = progress.batchId
                print(f"batch {seen} {progress.numInputRows}", flush=True)
            query.awaitTermination(1)
        raise SystemExit(str(query.exception()))


if __name__ == "__main__":
    folder, url, address, options, once = sys.argv[1:]
    main(Path(folder), url, address, options, once == "once")
