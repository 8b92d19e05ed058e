"""The login trail: accepted and refused logins of messaging clients, and refused links.

A record is one line of JSON: user, space, SASL mechanism or link address, peer, and the reason of a
refusal. The node reports neither passwords nor tokens. The trail has a file of its own, so that
repeated logins do not displace other records. The bounds below limit the records per second; the
next record of the kind has the number of the others.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from enmasse.api.trail.audit import STRANGER, TEXT_MAX, append
from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, rfc3339
from enmasse.base.rotated import RotatedFile

ACCEPTED_A_SECOND = 50
"""Maximum records of accepted logins per second."""

REFUSED_A_SECOND = 10
"""Maximum records of refused logins per second."""

LINKS_A_SECOND = 10
"""Maximum records of refused links per second."""

_VERBS = {"opened": "connect", "login-refused": "connect", "attach-refused": "attach"}
_ALLOWED = "opened"
_INSIDE = "local"
"""The transport of clients within this process, which do not log in."""


class LoginTrail:
    """Records logins from the events of the node."""

    def __init__(self, file: RotatedFile, clock: Clock) -> None:
        self._file = file
        self._bounds = {
            "opened": Bounded(clock, ACCEPTED_A_SECOND),
            "login-refused": Bounded(clock, REFUSED_A_SECOND),
            "attach-refused": Bounded(clock, LINKS_A_SECOND),
        }

    def write(self, event: Mapping[str, Any]) -> None:
        """Record one event of the node; ignore events other than logins and links."""
        verb = _VERBS.get(event["event"])
        if verb is None or event.get("transport") == _INSIDE:
            return
        bound = self._bounds[event["event"]]
        if not bound.may_write():
            return
        texts = {
            "who": event.get("user") or STRANGER,
            "from": _host(event.get("peer") or ""),
            "verb": verb,
            "space": event.get("space"),
            "address": event.get("address"),
            "mechanism": event.get("mechanism"),
            "transport": event.get("transport"),
            "agent": event.get("container"),
            "decision": "allowed" if event["event"] == _ALLOWED else "refused",
            "condition": event.get("condition") if verb == "attach" else None,
            "why": event.get("reason"),
        }
        moment = datetime.fromtimestamp(event["atMs"] / 1000, UTC)
        record = {"time": rfc3339(moment)}
        record |= {name: str(text)[:TEXT_MAX] for name, text in texts.items() if text}
        append(self._file, record | {"unwritten": bound.unwritten()})


def _host(peer: str) -> str:
    return peer.rpartition(":")[0].strip("[]")
