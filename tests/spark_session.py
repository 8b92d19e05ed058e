"""One Spark for a test process, and jobs that run in processes of their own to be killed."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from enmasse.pipeline.session import light_home


@contextmanager
def session(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A small session whose files lie in a folder, with more settings.

    Within another one it is that one: a process has one JVM, and its owner stops it.
    """
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": 20,
    }
    # workers are started by this name, which need not be the Python of this process
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("enmasse")
    for name, value in (settings | dict(more or {})).items():
        builder = builder.config(name, str(value))
    outer = SparkSession.getActiveSession()
    with light_home(folder):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        if outer is None:
            spark.stop()
