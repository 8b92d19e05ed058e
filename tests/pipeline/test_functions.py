"""Steps of a document on Spark; an error names its step."""

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql import SparkSession

from enmasse.base.errors import Invalid
from enmasse.pipeline import functions

pytestmark = pytest.mark.timeout(300)

RECORDS = pyarrow.table({"device": ["d1", "d2"], "value": [1.0, None]})
HEAD = (
    "from pyspark.sql import functions as F\n"
    "from enmasse.pipeline.functions import step\n"
    "@step\n"
    "def other(frame):\n"
    "    return frame\n"
    "@step\n"
    "def wrong(frame):\n"
)


def run_step(spark: SparkSession, folder: Path, body: str) -> list[dict[str, Any]]:
    """The records after the steps of a file whose last step has this body."""
    file = folder / "steps.py"
    file.write_text(f"{HEAD}    {body}\n")
    steps = functions.load(file, [])
    made = functions.apply(spark.createDataFrame(RECORDS), steps)
    with functions.computing(steps):
        return [row.asDict() for row in made.collect()]


def test_a_step_may_change_add_and_drop_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = run_step(
        spark, tmp_path, "return frame.where('value is null').withColumn('x', F.lit(1))"
    )
    assert found == [{"device": "d2", "value": None}]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise ValueError('no\\nmore')", "step wrong: ValueError: no$"),
        ("frame.count()", "step wrong returns NoneType; return a DataFrame$"),
        ("return frame.where('valu > 1')", r"step wrong: AnalysisException: \[UNRESOLVED_COLUMN"),
        ("return frame.drop('value')", "step wrong drops column value; keep it$"),
        (
            "return frame.withColumn('value', F.raise_error(F.lit('no row')).cast('double'))",
            r"steps other, wrong: .*no row",
        ),
        (
            "return frame.withColumn('value', F.udf(lambda one: 1 / 0, 'double')('value'))",
            "steps other, wrong: ZeroDivisionError: ",
        ),
    ],
)
def test_errors_of_a_step_name_it(
    spark: SparkSession, tmp_path: Path, body: str, says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        run_step(spark, tmp_path, body)
