"""The edge's table: from our errors to one line on stderr and an exit code."""

import sys

from enmasse.base import errors
from enmasse.base.errors import EnMasseError

FAILED = 1
"""Refused or failed. `enmasse up` uses no other code when it cannot start."""

EXIT_CODES: dict[type[EnMasseError], int] = {
    errors.Invalid: FAILED,
    errors.Missing: 3,
    errors.Denied: 4,
    errors.Conflict: 5,
    errors.Exhausted: 6,
    errors.Unavailable: 7,
    errors.PeerError: 8,
    errors.Misuse: 70,
}
"""What every kind of error becomes. 2 is wrong usage, 130 is Ctrl-C."""

EXPLAINED = (
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 not found, 4 not allowed,"
    " 5 exists or has changed, 6 a limit was reached, 7 not reachable or not in time, 8 the other"
    " side broke the protocol, 130 interrupted."
)


def say(error: EnMasseError) -> None:
    """Write one line on stderr that tells an error."""
    tell(error.message)


def tell(text: str) -> None:
    """Write one line on stderr."""
    print(f"enmasse: {' '.join(text.split())}", file=sys.stderr)
