"""Records addresses that are created and deleted for links in the audit trail, as if the client had
used the API.
"""

from typing import Any

from enmasse.api.errors import answer_to
from enmasse.api.trail.audit import REFUSED_A_SECOND, STRANGER, append
from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, rfc3339
from enmasse.base.rotated import RotatedFile
from enmasse.control.auto_create import AutoCreateRecord
from enmasse.resources import API_VERSION

AGENT = "autoCreate"
"""The user agent of these records."""

_DONE = {"create": 201, "delete": 200}


class CreationTrail:
    """Records creations, deletions and refusals."""

    def __init__(self, file: RotatedFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._refused = Bounded(clock, REFUSED_A_SECOND)

    def write(self, change: AutoCreateRecord) -> None:
        """Write one record; at most REFUSED_A_SECOND refusals of each user."""
        who = change.user or STRANGER
        if change.error is not None and not self._refused.may_write(who):
            return
        record: dict[str, Any] = {
            "time": rfc3339(self._clock.now()),
            "who": who,
            "verb": change.verb,
            "namespace": change.key.namespace,
            "resource": "addresses",
            "name": change.key.name,
            "group": API_VERSION,
            "agent": AGENT,
            "decision": "allowed",
            "status": _DONE[change.verb],
        }
        if change.error is not None:
            # At most ten fields, so that a record stays short.
            answer = answer_to(change.error)
            fields = [fault.field for fault in change.error.faults][:10]
            record |= {
                "decision": "refused" if answer.status < 500 else "failed",
                "status": answer.status,
                "code": str(change.error.code),
                "reason": answer.reason,
                "fields": fields or None,
            }
        append(self._file, record | {"unwritten": self._refused.unwritten()})
