"""How far gold is behind silver, from the logs of both, without Spark."""

from dataclasses import dataclass

from deltalake import DeltaTable

from enmasse.base.clock import SystemClock
from enmasse.pipeline.tables import log
from enmasse.pipeline.tables.log import LogGoneError


@dataclass(frozen=True)
class Progress:
    """The version of silver, the one that gold has, and the time of the first missing commit."""

    silver: int
    gold: int | None
    since_ms: int | None

    @property
    def versions_behind(self) -> int:
        """Commits of silver that gold has not read."""
        return self.silver - (-1 if self.gold is None else self.gold)

    def lag_s(self, now_s: float) -> float:
        """Return the age of the oldest commit of silver that gold lacks."""
        return 0.0 if self.since_ms is None else max(0.0, now_s - self.since_ms / 1000)


def gold_app_id(name: str, silver: DeltaTable) -> str:
    """Return the id of the transaction in which gold records a version of silver. A table that was
    created again is another one.
    """
    return f"{name}/gold/{silver.metadata().id}"


def progress(name: str, silver: str, gold: str) -> Progress | None:
    """Return the progress of gold of a pipeline; None without silver."""
    if not DeltaTable.is_deltatable(silver):
        return None
    opened, known = DeltaTable(silver), None
    if DeltaTable.is_deltatable(gold):
        known = DeltaTable(gold).transaction_version(gold_app_id(name, opened))
    now = opened.version()
    if known is not None and known >= now:
        return Progress(now, known, None)
    try:
        since_ms = log.time_ms(silver, 0 if known is None else known + 1)
    except LogGoneError:
        # the log entry has expired: gold will be recomputed
        since_ms = int(opened.history(1)[0]["timestamp"])
    return Progress(now, known, since_ms)


def may_vacuum(name: str, silver: str, gold: str, keep_ms: int) -> bool:
    """Return whether gold has read all files of silver that are older than this."""
    found = progress(name, silver, gold)
    if found is None or found.gold is None:
        return False
    return found.lag_s(SystemClock().now().timestamp()) <= keep_ms / 1000
