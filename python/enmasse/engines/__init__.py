"""What can run a Plan. One file for each engine; the rest of the platform knows `Engine` alone."""

from enmasse.engines.protocol import (
    AddressFigures,
    Connection,
    Engine,
    Observed,
    Proof,
    WorkerFigures,
)

__all__ = ["AddressFigures", "Connection", "Engine", "Observed", "Proof", "WorkerFigures"]
