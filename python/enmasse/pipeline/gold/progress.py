"""How far gold is behind silver, by the logs of both; no Spark is needed."""

from dataclasses import dataclass

from deltalake import DeltaTable

from enmasse.base.clock import SystemClock
from enmasse.pipeline.tables import log
from enmasse.pipeline.tables.log import LogGoneError


@dataclass(frozen=True)
class Progress:
    """The version of silver, the one that gold has, and since when gold lacks something."""

    silver: int
    gold: int | None
    since_ms: int | None

    @property
    def versions_behind(self) -> int:
        """Commits of silver that gold has not read."""
        return self.silver - (-1 if self.gold is None else self.gold)

    def lag_s(self, now_s: float) -> float:
        """Return for how long gold has lacked the oldest of what it lacks."""
        return 0.0 if self.since_ms is None else max(0.0, now_s - self.since_ms / 1000)


def consumer(name: str, silver: DeltaTable) -> str:
    """Return the name under which gold remembers a version of silver; one that is made anew is
    another table."""
    return f"{name}/gold/{silver.metadata().id}"


def progress(name: str, silver: str, gold: str) -> Progress | None:
    """Return how far gold of a pipeline is; None where there is no silver."""
    if not DeltaTable.is_deltatable(silver):
        return None
    opened, known = DeltaTable(silver), None
    if DeltaTable.is_deltatable(gold):
        known = DeltaTable(gold).transaction_version(consumer(name, opened))
    now = opened.version()
    if known is not None and known >= now:
        return Progress(now, known, None)
    try:
        since_ms = log.time_ms(silver, 0 if known is None else known + 1)
    except LogGoneError:
        # what is not kept is not read: gold is computed anew
        since_ms = int(opened.history(1)[0]["timestamp"])
    return Progress(now, known, since_ms)


def may_clean(name: str, silver: str, gold: str, keep_ms: int) -> bool:
    """Return whether silver may be cleaned of what is older than this: gold has read it all, or
    what it has not read is younger."""
    found = progress(name, silver, gold)
    if found is None or found.gold is None:
        return False
    return found.lag_s(SystemClock().now().timestamp()) <= keep_ms / 1000
