"""Maps errors to one line on stderr and an exit code."""

import re
import sys
from shlex import quote

from enmasse.base import errors
from enmasse.base.errors import EnMasseError

FAILED = 1
"""Refused or failed. Also every failed start of `enmasse up`."""

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
"""Exit code of every error class. 2 is wrong usage, 130 is Ctrl-C."""

EXPLAINED = (
    "Exit codes: 0 success, 1 refused or failed, 2 wrong usage, 3 not found, 4"
    " forbidden, 5 exists or changed, 6 limit reached, 7 unreachable or timed"
    " out, 8 protocol violation by the peer, 130 interrupted."
)


_REMEDIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"""(?:no address |\baddress(?:es[\w.]*)? )['"]([^'"]+)['"](?= not| in this)"""),
        "enmasse create address {0} --type TYPE",
    ),
    (re.compile(r"address space '([^']+)' not"), "enmasse create addressspace {0}"),
    (re.compile(r"addressspaces[\w.]* '([^']+)' not"), "enmasse create addressspace {0}"),
    (re.compile(r"messagingusers[\w.]* '([^']+)' not"), "enmasse user create {0}"),
    (
        re.compile(r"topic address '([^']+)' that does not exist"),
        "enmasse create address {0} --type topic",
    ),
    (
        re.compile(r"dead letter address '([^']+)' that does not exist"),
        "enmasse create address {0} --type deadletter",
    ),
)
"""Patterns of missing resources in messages, and the commands that declare them."""


def report(error: EnMasseError) -> None:
    """Write one line on stderr: the error, and the command that declares a missing resource."""
    command = remedy(error.message)
    write_line(f"{error.message} (`{command}` declares it)" if command else error.message)


def remedy(message: str) -> str | None:
    """Return the command that declares the resource that a message reports as missing, or None."""
    if "did you mean" in message:
        return None
    found = ((pattern.search(message), command) for pattern, command in _REMEDIES)
    return next((command.format(quote(hit[1])) for hit, command in found if hit), None)


def write_line(text: str) -> None:
    """Write one line on stderr."""
    print(f"enmasse: {' '.join(text.split())}", file=sys.stderr)
