"""Spark compares gold with silver and reports each difference."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from enmasse.pipeline.gold import verification
from enmasse.pipeline.gold.verification import Verification
from gold_lake import Lake, some

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
DAY_S = 86_400.0


@pytest.fixture
def compare(spark: SparkSession) -> Callable[[Lake], Verification]:
    def compared(lake: Lake) -> Verification:
        return verification.verify(spark, "p", lake.silver.path, lake.gold, lake.windows)

    return compared


def damage(lake: Lake, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Replace each row of gold by the result of `change`; None deletes the row."""
    opened = DeltaTable(lake.gold)
    rows = [row for one in opened.to_pyarrow_table().to_pylist() if (row := change(one))]
    table = pyarrow.Table.from_pylist(rows, opened.to_pyarrow_table().schema)
    write_deltalake(lake.gold, table, mode="overwrite")


def test_verification_names_wrong_windows(
    spark: SparkSession, tmp_path: Path, compare: Callable[[Lake], Verification]
) -> None:
    lake = Lake(spark, tmp_path, [60_000])
    assert compare(lake) == Verification(0, 0, 0, 0, [])
    lake.append(*some(1, 40, span=DAY_S / 2), {"value": 1e300}, {"value": -1e300})
    assert compare(lake) == Verification(0, 0, 0, 2, [])
    lake.query.catch_up()
    count = len(lake.expected())
    lake.append(*some(2, 10))
    found = compare(lake)
    assert found == Verification(count, 0, 0, 1, []) and found.exact
    lake.query.catch_up()
    first, second, third, *_ = sorted(
        (row for row in lake.rows() if row["count"] == 1), key=lambda row: str(row["start"])
    )

    def wrong(row: dict[str, Any]) -> dict[str, Any] | None:
        if row == first:
            return None
        if row == second:
            return row | {"last": row["last"] + 1, "p50": row["p50"] + 1}
        return row | {"device": "none"} if row == third else row

    damage(lake, wrong)
    differing = {(row["device"], row["start"]): row["differs"] for row in compare(lake).differences}
    starts = [f"{row['start']:%Y-%m-%dT%H:%M:%S}.000Z" for row in (first, second, third)]
    assert differing == {
        (first["device"], starts[0]): ["missing"],
        (second["device"], starts[1]): ["last", "p50"],
        (third["device"], starts[2]): ["missing"],
        ("none", starts[2]): ["not in silver"],
    }


def test_verification_skips_unmerged_long_windows(
    spark: SparkSession, tmp_path: Path, compare: Callable[[Lake], Verification]
) -> None:
    lake = Lake(spark, tmp_path)
    lake.append({"seconds": 0.0}, {"seconds": DAY_S})
    lake.query.catch_up()
    lake.append({"seconds": 1.0})
    lake.query.step()
    found = compare(lake)
    # two minutes, and the hour and the day without new readings
    assert (found.windows, found.exact) == (4, True)
    lake.query.merge_long()
    found = compare(lake)
    assert (found.windows, found.exact) == (6, True)
