"""`enmasse pipeline run` gives exact results while its processes and its servers are killed.

`bench/kills.py` runs the same schedules for longer.
"""

import os
import subprocess
from pathlib import Path

import pytest

from killed_pipeline import LOCAL, Place, run_schedule
from platform_process import ENMASSE, Node
from postgres_server import PostgresServer
from spark_cluster import cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
SCHEDULES = max(2, int(os.environ.get("ENMASSE_PIPELINE_KILLS", "5")) // 25)
"""Schedules with real processes of Spark; `test_schedules` runs many more, without Spark."""
KILLS = 1 + len(LOCAL)
"""Each victim once, and a driver between two steps of a batch: 21 kills in three schedules."""


def addresses(seed: int) -> dict[str, str]:
    return {kind: f"{kind}{seed}" for kind in ("in", "out", "on")}


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_all_counts_are_exact_after_kills_of_processes(
    node: Node, mortal_database: PostgresServer, tmp_path: Path, seed: int
) -> None:
    place = Place(node, mortal_database)
    run_schedule(place, tmp_path / "p", seed, KILLS, addresses(seed))


def test_all_counts_are_exact_after_kills_of_executors(
    node: Node, mortal_database: PostgresServer, tmp_path: Path
) -> None:
    package = tmp_path / "package.tar.gz"
    subprocess.run([ENMASSE, "pipeline", "package", package], check=True, timeout=300)
    with cluster(tmp_path / "cluster", 2) as standalone:
        place = Place(node, mortal_database, standalone, package)
        run_schedule(place, tmp_path / "p", SCHEDULES, KILLS, addresses(SCHEDULES))
