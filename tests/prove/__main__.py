"""`make prove`: kill the platform again and again under load, and judge what its clients were told.

Exit code 0: nothing that was accepted was lost, and nothing came more often than at-least-once
delivery explains. The report is one HTML file.
"""

import argparse
import logging
import random
import shutil
import sys
from pathlib import Path

from prove.killing import prove
from prove.report import page, summary


def main(arguments: list[str]) -> int:
    """Run once; return the exit code."""
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of load; 30")
    parser.add_argument("--seed", type=int, help="of kills and clients; drawn if left out")
    parser.add_argument("--out", type=Path, default=Path("build/prove"), help="build/prove")
    given = parser.parse_args(arguments)
    logging.getLogger("proton").setLevel(logging.CRITICAL)  # every kill would be an error
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    data = given.out / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    run = prove(data, given.seconds, seed)
    report = given.out / "report.html"
    report.write_text(page(run), encoding="utf-8")
    print(f"{summary(run)}\n{report}")
    if run.good:
        shutil.rmtree(data)
        return 0
    print(f"failed; the data folder is left in {data}; again: {run.command}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
