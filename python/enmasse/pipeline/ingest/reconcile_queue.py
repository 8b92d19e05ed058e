"""Proves that each message that was settled at a queue is in bronze once, or still in the spool.

A queue forgets delivered messages, so there is nothing to compare with. The spool numbers messages
without a gap before it settles them: bronze and spool together must have each number, and bronze
each of its numbers once. Repeated deliveries have the same message-id and content.
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
"""The bare message, which no server changes, apart from application properties."""


@dataclass(frozen=True)
class QueueReconciliation:
    """Settled messages, and where they are."""

    settled: int
    bronze: int
    """Rows of bronze."""
    offsets: int
    """Distinct offsets of these rows."""
    waiting: int
    """Messages in the spool only."""
    anonymous: int
    """Rows without a message-id, for which repeated deliveries cannot be detected."""
    repeated: int
    """Rows with the id and content of one of the `idWindow` messages before them."""

    @property
    def missing(self) -> int:
        """Messages that are neither in bronze nor in the spool."""
        return self.settled - self.offsets - self.waiting

    @property
    def exact(self) -> bool:
        """Whether each message is stored once."""
        return self.missing == 0 and self.bronze == self.offsets and self.repeated == 0


def reconcile_queue(
    spark: SparkSession, source: Mapping[str, str], bronze: Table
) -> QueueReconciliation:
    """Compare spool and bronze; the queue may be read meanwhile.

    `source` are the options of the source. Raises Missing without a spool or a table.
    """
    options = option_table.read(source)
    assert options.spool is not None
    # read before bronze: messages that leave the spool later are in bronze
    extent = spool.extent(Path(options.spool))
    rows = delta.read(spark, bronze).where(F.col("address") == options.address)
    rows = rows.where(F.col("space").eqNullSafe(F.lit(options.space).cast("string")))
    rows = rows.where(F.col("offset") < extent.next)
    spooled = sum(after - first for first, after in extent.spans)
    offset = F.col("offset")
    spans = [(offset >= first) & (offset < after) for first, after in extent.spans]
    (found,) = rows.agg(
        F.count("*").alias("rows"),
        F.countDistinct("offset").alias("offsets"),
        F.countDistinct(F.when(reduce(or_, spans, F.lit(False)), offset)).alias("both"),
        F.count(F.when(F.col("message_id").isNull(), 1)).alias("anonymous"),
    ).collect()
    return QueueReconciliation(
        settled=extent.next,
        bronze=found.rows,
        offsets=found.offsets,
        waiting=spooled - found.both,
        anonymous=found.anonymous,
        repeated=_repeated(rows, options),
    )


def _repeated(rows: DataFrame, options: Options) -> int:
    bare = [F.col(name) for name in BARE] + [F.map_entries("application_properties")]
    identity = F.sha2(F.to_json(F.struct(*bare)), 256)
    named = rows.where("message_id is not null").select("offset", identity.alias("identity"))
    before = F.lag("offset").over(Window.partitionBy("identity").orderBy("offset"))
    # a repeated offset is another fault than a message with two offsets
    distance = F.col("offset") - before
    found = named.select(distance.alias("distance")).where(F.col("distance") > 0)
    return found.where(F.col("distance") <= options.id_window).count()
