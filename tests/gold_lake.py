"""Silver that batches are appended to by hand, and the query of gold over it."""

import random
from pathlib import Path
from typing import Any

import pyarrow
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from enmasse.pipeline.gold import progress
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from gold_oracle import Key, differences, expected
from silver_readings import measured

WINDOWS = [60_000, 3_600_000, 86_400_000]
DAY_S = 86_400.0


class Lake:
    """Silver that batches are appended to, and the query of gold."""

    def __init__(self, spark: SparkSession, folder: Path, windows: list[int] = WINDOWS) -> None:
        self.silver = Table(str(folder / "silver"), ("date",))
        self.gold = str(folder / "gold")
        self.windows = windows
        self.query = GoldQuery(spark, "p", self.silver.path, self.gold, windows)
        self.batch = 0
        self.offset = 0

    def append(self, *rows: dict[str, Any], source: str = "s") -> None:
        given = [{"source": source} | row for row in rows]
        table = dated(measured(*given, first=self.offset))
        self.offset += len(rows)
        delta.append_arrow(table, self.silver, f"p/{source}/q", self.batch)
        self.batch += 1

    def readings(self) -> pyarrow.Table:
        return DeltaTable(self.silver.path).to_pyarrow_table()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(self.gold).to_pyarrow_table().to_pylist()
        return found

    def differences(self) -> list[str]:
        return differences(self.rows(), self.expected())

    def expected(self) -> dict[Key, dict[str, Any]]:
        return expected(self.readings(), self.windows)

    def has_read(self, keep_ms: int) -> bool:
        return progress.may_vacuum("p", self.silver.path, self.gold, keep_ms)

    def files(self) -> set[str]:
        return set(DeltaTable(self.gold).file_uris())


def dated(table: pyarrow.Table) -> pyarrow.Table:
    """Readings whose `date` is that of their time."""
    days = table["event_time"].cast(pyarrow.date32())
    return table.set_column(table.schema.get_field_index("date"), "date", days)


def some(seed: int, count: int, span: float = 2 * DAY_S) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "device": dice.choice("abc"),
            "unit": dice.choice([None, "Cel"]),
            "value": dice.choice([dice.uniform(-5, 5), dice.gauss(1e6, 1e-3), None]),
            "seconds": dice.uniform(-span, span),
        }
        for _ in range(count)
    ]
