"""The tables of a pipeline, and what keeps them tidy beside the batches."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pyarrow
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from enmasse.base.errors import Missing
from enmasse.pipeline.gold import gold_table
from enmasse.pipeline.ingest import bronze
from enmasse.pipeline.places import Places
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table
from enmasse.resources import Pipeline

DAY_MS = 86_400_000


class Store:
    """The tables of a pipeline."""

    def __init__(self, pipeline: Pipeline, places: Places) -> None:
        """Name them; nothing is made yet."""
        spec = pipeline.spec.tables
        self.format = spec.format
        self.bronze = bronze.table(places.table("bronze"), spec.format)
        self.silver = Table(places.table("silver"), spec.format, ("date",))
        self.quarantine = Table(places.table("quarantine"), spec.format, ("date",))
        self.gold = gold_table.table(places.table("gold"), spec.format)
        # joining files takes seconds, which what is live would have to wait for
        self._beside = ThreadPoolExecutor(1, "tidy")
        self._tidying: Future[None] | None = None
        self._one = threading.Lock()

    def append(
        self,
        spark: SparkSession | None,
        rows: pyarrow.Table,
        table: Table,
        app_id: str,
        batch_id: int,
    ) -> None:
        """Append the rows of a batch, unless it is in the table already; Parquet needs Spark."""
        if table.format == "delta":
            delta.append_arrow(rows, table, app_id, batch_id)
        elif len(rows) and spark is not None:
            delta.append(spark.createDataFrame(rows), table, app_id, batch_id)

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones and delete those that were kept long enough."""
        self.gold.tidy(keep_ms)
        for table in (self.bronze, self.silver, self.quarantine):
            with suppress(Missing, TableNotFoundError):
                delta.compact(table)
                if table.format == "delta":
                    delta.vacuum(table, -(-keep_ms // DAY_MS))

    def tidy_beside(self, keep_ms: int) -> None:
        """Tidy while batches go on, unless that is under way. Raises what went wrong the last
        time."""
        with self._one:
            if self._tidying is not None and not self._tidying.done():
                return
            self._tidied()
            self._tidying = self._beside.submit(self.tidy, keep_ms)

    def close(self) -> None:
        """Wait for what is under way; raises what went wrong in it."""
        with self._one:
            self._tidied()

    def _tidied(self) -> None:
        last, self._tidying = self._tidying, None
        if last is not None:
            last.result()
