"""`enmasse`, killed at the nth call of a point: `POINT COUNT before|after WORDS..`."""

import sys

import batch_engine
from enmasse.cli import main

POINTS = batch_engine.POINTS | {"keep rejected": batch_engine.SINK_POINTS["keep rejected"]}
"""Those of a batch, and a sink after its rows are sent. The driver calls all of them; rows are sent
by other processes."""

if __name__ == "__main__":
    _, point, count, when, *words = sys.argv
    batch_engine.kill_at(POINTS[point], int(count), after=when == "after")
    sys.argv = ["enmasse", *words]
    main()
