"""`python bench/kills.py`: exact results after many kills of a pipeline with the real Spark.

A schedule has `--each` kills: of the driver, its JVM, the planner, an executor, a Python worker,
the node and the database; every second schedule runs on a cluster of two executors. After it,
`reconcile` must be exact, gold must equal a recomputation, and each incident must be one alert. The
result of a schedule is one line of `--results`; schedules that are there already are skipped, so an
interrupted benchmark continues with the next one. `--seeds` runs these schedules, again if they
have a result. The folder of a schedule that fails is kept and named on stderr.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from killed_pipeline import Place, run_schedule
from platform_process import ENMASSE, mortal_node
from postgres_server import postgres_server
from spark_cluster import cluster
from stream_documents import SPACE, stream

ADDRESSES = {"in": "readings", "out": "alerts", "on": "forwarded"}
RESULTS = Path(__file__).with_name("kills.jsonl")
WORKERS = 2


def one_schedule(seed: int, kills: int) -> dict[str, Any]:
    """Run a schedule on servers of its own; return its result, or how it failed."""
    begun_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="enmasse-kills-"))
    with ExitStack() as stack:
        documents = [SPACE, *map(stream, ADDRESSES.values())]
        (folder / "node").mkdir()
        node = stack.enter_context(mortal_node(folder / "node", documents))
        place = Place(node, stack.enter_context(postgres_server()))
        if seed % 2:
            package = folder / "package.tar.gz"
            subprocess.run([ENMASSE, "pipeline", "package", package], check=True)
            standalone = stack.enter_context(cluster(folder / "cluster", WORKERS))
            place = Place(node, place.database, standalone, package)
        try:
            found = run_schedule(place, folder / "p", seed, kills, ADDRESSES)
        except (AssertionError, subprocess.SubprocessError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            found = {"seed": seed, "failed": f"{last.name}: {last.line}\n{str(error)[-2000:]}"}
    if "failed" in found:
        print(f"the files of schedule {seed} are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    spark = "local" if place.cluster is None else f"cluster of {WORKERS} executors"
    return found | {"spark": spark, "seconds": round(time.monotonic() - begun_s)}


def main() -> None:
    """Run the schedules that have no result yet, and print the sum."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+")
    asked = parser.parse_args()
    lines = asked.results.read_text().splitlines() if asked.results.exists() else []
    results = {one["seed"]: one for one in map(json.loads, lines)}
    missing = [seed for seed in range(-(-asked.kills // asked.each)) if seed not in results]
    for seed in missing if asked.seeds is None else asked.seeds:
        results[seed] = one_schedule(seed, asked.each)
        asked.results.write_text(
            "".join(f"{json.dumps(results[one])}\n" for one in sorted(results))
        )
        print(json.dumps(results[seed]), flush=True)
    exact = [one for one in results.values() if "failed" not in one]
    kills, messages = (
        sum(len(one["killed"]) for one in exact),
        sum(one["messages"] for one in exact),
    )
    print(f"{kills} kills, {messages} messages: exact in {len(exact)} of {len(results)} schedules")
    sys.exit(len(exact) != len(results))


if __name__ == "__main__":
    main()
