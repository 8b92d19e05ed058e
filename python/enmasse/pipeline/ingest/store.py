"""The tables of a pipeline, and what keeps them tidy beside the batches."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from enmasse.base.errors import Missing
from enmasse.pipeline.gold import progress
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.gold.table import GoldTable
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
        self.bronze = bronze.table(places.table("bronze"))
        self.silver = Table(places.table("silver"), ("date",))
        self.quarantine = Table(places.table("quarantine"), ("date",))
        self.gold = GoldTable(places.table("gold"))
        self.name = pipeline.metadata.name
        self.windows = pipeline.spec.windows
        # joining files takes seconds, which what is live would have to wait for
        self._beside = ThreadPoolExecutor(1, "tidy")
        self._tidying: Future[None] | None = None
        self._one = threading.Lock()

    def gold_query(self, spark: SparkSession) -> GoldQuery:
        """Return the query that brings gold to where silver is."""
        return GoldQuery(spark, self.name, self.silver.path, self.gold.path, self.windows)

    def gold_progress(self) -> Progress | None:
        """Return how far gold is; None where there is no silver."""
        return progress.progress(self.name, self.silver.path, self.gold.path)

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones and delete those that were kept long enough."""
        for table in (self.bronze, self.silver, self.quarantine):
            with suppress(Missing, TableNotFoundError):
                delta.compact(table)
                if table is self.silver and not self._gold_may_wait(keep_ms):
                    continue
                delta.vacuum(table, -(-keep_ms // DAY_MS))

    def _gold_may_wait(self, keep_ms: int) -> bool:
        """Whether gold has read what is older than this: what it has not read has to stay."""
        return progress.may_clean(self.name, self.silver.path, self.gold.path, keep_ms)

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
