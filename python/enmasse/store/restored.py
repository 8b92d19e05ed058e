"""Periods that a store does not know because it was restored to a time before them.

They are in the ConfigMap `restored` of the infra namespace, one line each. Objects elsewhere that
belong to resources created in such a period are not garbage just because the store lacks the
resource.
"""

import re
from typing import NamedTuple

from enmasse.base.ids import new_uid
from enmasse.resources import ConfigMap, Key, Resource
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import INFRA_NAMESPACE

RESTORED = Key("ConfigMap", INFRA_NAMESPACE, "restored")

TIMES = "times"
"""The key that holds the lines."""

TIMES_MAX = 100
"""Maximum number of periods; beyond it the oldest are merged."""

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_LINE = re.compile(rf"({_TIME}) ({_TIME})")


class UnknownPeriod(NamedTuple):
    """A period that the store does not know, inclusive at both ends, in the format of resources."""

    since: str
    until: str


def lost(found: Resource | None) -> tuple[UnknownPeriod, ...]:
    """Return the periods in the ConfigMap of a store; none without it.

    Raises: ValueError, with the remedy, for a line that is not a pair of times.
    """
    text = found.data.get(TIMES, "") if isinstance(found, ConfigMap) else ""
    times = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if (both := _LINE.fullmatch(line)) is None:
            raise ValueError(
                f"{RESTORED}, data.{TIMES}: {line!r} is not a pair of times;"
                " write 2026-01-31T08:00:00Z 2026-01-31T09:00:00Z, or delete"
                " the line"
            )
        times.append(UnknownPeriod(*both.groups()))
    return tuple(times)


def noted(before: tuple[UnknownPeriod, ...], one: UnknownPeriod) -> ConfigMap:
    """Return the ConfigMap with one more period."""
    times = [*before, one]
    while len(times) > TIMES_MAX:
        times[:2] = [
            UnknownPeriod(min(times[0].since, times[1].since), max(times[0].until, times[1].until))
        ]
    metadata = NamedMetadata(
        name=RESTORED.name,
        namespace=INFRA_NAMESPACE,
        uid=new_uid(),
        generation=1,
        creation_timestamp=one.until,
    )
    return ConfigMap(metadata=metadata, data={TIMES: "".join(f"{a} {b}\n" for a, b in times)})


def is_lost(moment: str | None, times: tuple[UnknownPeriod, ...]) -> bool:
    """Whether a moment is within a period; an unknown moment counts as within."""
    return any(moment is None or one.since <= moment <= one.until for one in times)
