"""The tables of a pipeline, and their maintenance in the background."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from enmasse.pipeline.gold import progress
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.gold.table import GoldTable
from enmasse.pipeline.ingest import bronze
from enmasse.pipeline.paths import Paths
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from enmasse.resources import Pipeline

DAY_MS = 86_400_000


class Store:
    """The tables of a pipeline."""

    def __init__(self, pipeline: Pipeline, paths: Paths) -> None:
        """Name the tables; nothing is created yet."""
        self.bronze = bronze.table(paths.table("bronze"))
        self.silver = Table(paths.table("silver"), ("date",))
        self.quarantine = Table(paths.table("quarantine"), ("date",))
        self.gold = GoldTable(paths.table("gold"))
        self.name = pipeline.metadata.name
        self.windows = pipeline.spec.windows
        # compaction takes seconds, too long for a batch
        self._executor = ThreadPoolExecutor(1, "maintenance")
        self._maintenance: Future[None] | None = None
        self._lock = threading.Lock()

    def gold_query(self, spark: SparkSession) -> GoldQuery:
        """Return the query that updates gold from silver."""
        return GoldQuery(spark, self.name, self.silver.path, self.gold.path, self.windows)

    def gold_progress(self) -> Progress | None:
        """Return the progress of gold; None where there is no silver."""
        return progress.progress(self.name, self.silver.path, self.gold.path)

    def maintain(self, keep_ms: int) -> None:
        """Compact small files and delete expired ones. Files of silver that gold has not read
        stay.
        """
        for table in (self.bronze, self.silver, self.quarantine):
            with suppress(TableNotFoundError):
                delta.compact(table)
                of_gold = self.name, self.silver.path, self.gold.path
                if table is not self.silver or progress.may_vacuum(*of_gold, keep_ms):
                    # whole days
                    delta.vacuum(table, -(-keep_ms // DAY_MS) * DAY_MS)

    def maintain_in_background(self, keep_ms: int) -> None:
        """Start maintenance unless it is in progress. Raises the error of the last one."""
        with self._lock:
            if self._maintenance is not None and not self._maintenance.done():
                return
            self._raise_last_error()
            self._maintenance = self._executor.submit(self.maintain, keep_ms)

    def close(self) -> None:
        """Wait for maintenance in progress; raise its error."""
        with self._lock:
            self._raise_last_error()

    def _raise_last_error(self) -> None:
        last, self._maintenance = self._maintenance, None
        if last is not None:
            last.result()
