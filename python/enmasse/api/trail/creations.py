"""The audit trail of addresses that are created and deleted for links: as if they had asked the
API.
"""

from typing import Any

from enmasse.api.errors import answer_to
from enmasse.api.trail.audit import REFUSED_A_SECOND, STRANGER, append
from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, rfc3339
from enmasse.base.rotated import RotatedFile
from enmasse.control.auto_create import Deed
from enmasse.resources import API_VERSION

AGENT = "autoCreate"
"""What stands in the place of the program that asked."""

_DONE = {"create": 201, "delete": 200}


class CreationTrail:
    """Writes down what was created and deleted, and what was refused."""

    def __init__(self, file: RotatedFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._refused = Bounded(clock, REFUSED_A_SECOND)

    def tell(self, deed: Deed) -> None:
        """Write one deed; of refusals at most REFUSED_A_SECOND of each user."""
        who = deed.user or STRANGER
        if deed.error is not None and not self._refused.may_write(who):
            return
        record: dict[str, Any] = {
            "time": rfc3339(self._clock.now()),
            "who": who,
            "verb": deed.verb,
            "namespace": deed.key.namespace,
            "resource": "addresses",
            "name": deed.key.name,
            "group": API_VERSION,
            "agent": AGENT,
            "decision": "allowed",
            "status": _DONE[deed.verb],
        }
        if deed.error is not None:
            # At most ten fields, so that a record stays short.
            answer = answer_to(deed.error)
            fields = [fault.field for fault in deed.error.faults][:10]
            record |= {
                "decision": "refused" if answer.status < 500 else "failed",
                "status": answer.status,
                "code": str(deed.error.code),
                "reason": answer.reason,
                "fields": fields or None,
            }
        append(self._file, record | {"unwritten": self._refused.unwritten()})
