"""Proves that each message that was settled at a queue is in bronze once, or waits in the spool.

A queue forgets what it has handed out, so nothing is left to compare with. The spool numbers what
it takes, without a gap, before it is settled: bronze and spool together have to have each number,
bronze each of its own once. What came again is known by its message-id and content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import spool
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table

BARE = (
    *("message_id", "correlation_id", "subject", "to", "reply_to", "content_type", "group_id"),
    *("body", "body_kind"),
)
"""What of a message no server changes, beside the application properties."""


@dataclass(frozen=True)
class Settled:
    """Messages that were settled, and where they are."""

    settled: int
    bronze: int
    """Rows of bronze."""
    offsets: int
    """Numbers that these have."""
    waiting: int
    """Messages that are in the spool only."""
    anonymous: int
    """Rows without a message-id: whether one of them came twice nobody knows."""
    repeated: int
    """Rows that have the id and the content of one of the `idWindow` messages before them."""

    @property
    def missing(self) -> int:
        """Messages that are nowhere."""
        return self.settled - self.offsets - self.waiting

    @property
    def exact(self) -> bool:
        """Whether each message is there once."""
        return self.missing == 0 and self.bronze == self.offsets and self.repeated == 0


def settled(spark: SparkSession, source: Mapping[str, str], bronze: Table) -> Settled:
    """Compare spool and bronze, also while the queue is read.

    `source` are the options by which it is read. Raises Missing without a spool or a table.
    """
    options = option_table.read(source)
    assert options.spool is not None
    # what leaves the spool from now on is in bronze
    had = spool.extent(Path(options.spool))
    rows = delta.read(spark, bronze).where(F.col("address") == options.address)
    rows = rows.where(F.col("space").eqNullSafe(F.lit(options.space).cast("string")))
    rows = rows.where(F.col("offset") < had.next)
    kept = sum(after - first for first, after in had.spans)
    offset = F.col("offset")
    spans = [(offset >= first) & (offset < after) for first, after in had.spans]
    (found,) = rows.agg(
        F.count("*").alias("rows"),
        F.countDistinct("offset").alias("offsets"),
        F.countDistinct(F.when(reduce(or_, spans, F.lit(False)), offset)).alias("both"),
        F.count(F.when(F.col("message_id").isNull(), 1)).alias("anonymous"),
    ).collect()
    return Settled(
        settled=had.next,
        bronze=found.rows,
        offsets=found.offsets,
        waiting=kept - found.both,
        anonymous=found.anonymous,
        repeated=_repeated(rows, options),
    )


def _repeated(rows: DataFrame, options: Options) -> int:
    bare = [F.col(name) for name in BARE] + [F.map_entries("application_properties")]
    identity = F.sha2(F.to_json(F.struct(*bare)), 256)
    named = rows.where("message_id is not null").select("offset", identity.alias("identity"))
    before = F.lag("offset").over(Window.partitionBy("identity").orderBy("offset"))
    # one number twice is another fault than one message under two numbers
    away = F.col("offset") - before
    found = named.select(away.alias("away")).where(F.col("away") > 0)
    return found.where(F.col("away") <= options.id_window).count()
