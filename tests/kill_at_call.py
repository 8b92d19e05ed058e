"""`enmasse`, killed at the nth call of a point: `POINT COUNT before|after WORDS..`."""

import sys

import batch_engine
from enmasse.cli import main

POINTS = batch_engine.POINTS | {"deliver": batch_engine.SINK_POINTS["deliver"]}
"""Those of a batch, and the rows of a sink between their sending and the end of the batch."""

if __name__ == "__main__":
    _, point, count, when, *words = sys.argv
    batch_engine.kill_at(POINTS[point], int(count), after=when == "after")
    sys.argv = ["enmasse", *words]
    main()
