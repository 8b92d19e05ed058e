"""What can run a Plan. One file for each engine; the rest of the platform knows `Engine` alone."""

from enmasse.engines.protocol import (
    JOURNAL_STOPPED,
    AddressFigures,
    Connection,
    Engine,
    Failure,
    JournalFigures,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    Slice,
    SliceDone,
    SpaceFigures,
    StoredMessage,
    Unshown,
    WorkerFigures,
)

__all__ = [
    "JOURNAL_STOPPED",
    "AddressFigures",
    "Connection",
    "Engine",
    "Failure",
    "JournalFigures",
    "Observed",
    "Operation",
    "Proof",
    "ServerCertificate",
    "Slice",
    "SliceDone",
    "SpaceFigures",
    "StoredMessage",
    "Unshown",
    "WorkerFigures",
]
