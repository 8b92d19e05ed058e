"""The trail of access: who came in to send and receive, who was refused, and which links were.

A record is one line of JSON: who, the space, the SASL mechanism or the address of a link, from
where, and of a refusal why. Passwords and tokens never come this far: the node tells neither. Who
connects again and again fills a file of its own, and in a second no more than the bounds below; the
rest is counted in the next record of that kind.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from enmasse.api.trail.audit import STRANGER, TEXT_MAX, append
from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, rfc3339
from enmasse.base.rotated import RotatedFile

ACCEPTED_A_SECOND = 50
"""Records of those who came in that are written in a second."""

REFUSED_A_SECOND = 10
"""Records of those who were refused."""

LINKS_A_SECOND = 10
"""Records of links that were refused."""

_VERBS = {"opened": "connect", "login-refused": "connect", "attach-refused": "attach"}
_ALLOWED = "opened"
_INSIDE = "local"
"""The transport of this process's own clients, who do not log in."""


class LoginTrail:
    """Writes down logins as the node tells of them."""

    def __init__(self, file: RotatedFile, clock: Clock) -> None:
        self._file = file
        self._bounds = {
            "opened": Bounded(clock, ACCEPTED_A_SECOND),
            "login-refused": Bounded(clock, REFUSED_A_SECOND),
            "attach-refused": Bounded(clock, LINKS_A_SECOND),
        }

    def tell(self, event: Mapping[str, Any]) -> None:
        """Take one event of the node; one that is neither login nor link is passed over."""
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
