"""Other programs read tables while the pipeline writes them, and delta-spark appends to them."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import fetched
from enmasse.pipeline.paths import Paths, read
from pipeline_runs import document, message
from pipeline_supervisor import Supervisor
from platform_process import ENMASSE, Platform
from published_streams import Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
READERS = ("duckdb==2.0.1", "polars==2.1.0", "deltalake>=1.6,<2")
DELTA = "4.4.0"
"""The version of delta-spark for Spark 4.2."""
NAMES = ("bronze", "silver", "quarantine", "gold")
WAVE, WAVES = 300, 5

COUNTS = """
import json, sys
import duckdb, polars
from deltalake import DeltaTable

def counts(path, version):
    table = DeltaTable(path, version=version)
    rows = table.to_pyarrow_dataset()
    return {
        "delta-rs": rows.count_rows(),
        "pandas": len(table.to_pandas()),
        "duckdb": duckdb.sql("SELECT count(*) FROM rows").fetchall()[0][0],
        "polars": polars.scan_delta(path, version=version).select(polars.len()).collect().item(),
    }

print(json.dumps([counts(path, version) for path, version in json.loads(sys.argv[1])]))
"""
SPARK = """
import json, sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
found = []
for path in json.loads(sys.argv[1]):
    rows = spark.read.format("delta").load(path)
    found.append(rows.count())
    rows.limit(1).write.format("delta").mode("append").save(path)
print(json.dumps(found))
"""


def stream(platform: Platform, name: str) -> Log:
    options = ("--address", name, "--retention-age", "1d", "--partitions", "2")
    platform.enmasse("create", "address", name, "--type", "topic", *options)
    return Log(platform.url(), name)


def output(program: str, argument: object, **environment: str) -> Any:
    """Run a program in a Python of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(argument)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def versions(paths: Paths, names: Sequence[str] = NAMES) -> list[tuple[str, int]]:
    """The tables that exist, and their current versions."""
    found = [paths.table(name) for name in names]
    return [(path, DeltaTable(path).version()) for path in found if DeltaTable.is_deltatable(path)]


def test_readers_see_equal_counts_at_one_version_while_the_pipeline_writes(
    platform: Platform, tmp_path: Path
) -> None:
    readers = fetched.packages("delta-readers-1", *READERS)
    log = stream(platform, "read")
    spec = {"tables": {"compactEvery": 2, "keep": "1h"}, "goldTrigger": "1s", "trigger": "100ms"}
    file = document(tmp_path / "p", log, {"maxRows": 50}, **spec)
    _, paths = read(file)
    sent, read_tables = 0, set[str]()
    with closing(Supervisor(file)) as run:
        for _ in range(WAVES):
            bodies = [None, b"{"]
            sent += log.publish(
                message(number, bodies[number % 20 == 0]) for number in range(sent, sent + WAVE)
            )
            run.until(sent - WAVE // 2)
            # half a wave is still being written
            chosen = versions(paths)
            for (path, _), counts in zip(
                chosen, output(COUNTS, chosen, PYTHONPATH=str(readers)), strict=True
            ):
                assert len(set(counts.values())) == 1, (path, counts)
                read_tables.add(Path(path).name)
        run.until(sent)
        run.stop()
    assert read_tables == set(NAMES)


def test_delta_spark_reads_the_tables_and_appends_to_them(
    platform: Platform, tmp_path: Path
) -> None:
    jars = fetched.jars(
        f"delta-spark-{DELTA}",
        f"io.delta:delta-spark_4.2_2.13:{DELTA}",
        f"io.delta:delta-storage:{DELTA}",
        "org.antlr:antlr4-runtime:4.13.1",
    )
    log = stream(platform, "appended")
    file = document(tmp_path / "p", log, {"maxRows": 100})
    _, paths = read(file)
    sent = 0

    def run_once() -> None:
        nonlocal sent
        bodies = [None, b"{"]
        sent += log.publish(
            message(number, bodies[number % 20 == 0]) for number in range(sent, sent + WAVE)
        )
        done = subprocess.run([ENMASSE, "pipeline", "run", "-f", file, "--once"], timeout=300)
        assert done.returncode == 0

    def counts() -> list[int]:
        return [DeltaTable(paths.table(name)).to_pyarrow_dataset().count_rows() for name in NAMES]

    run_once()
    before = counts()
    words = f"--jars {','.join(map(str, jars))} pyspark-shell"
    tables = [paths.table(name) for name in NAMES]
    assert output(SPARK, tables, PYSPARK_SUBMIT_ARGS=words) == before
    assert counts() == [count + 1 for count in before]
    # the pipeline continues on the tables that another program has changed
    run_once()
    assert counts()[:3] == [sent + 1, sent - sent // 20 + 1, sent // 20 + 1]
