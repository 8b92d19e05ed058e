"""Times of which a store knows nothing any more, since it was put back to how it was before them.

They are in a ConfigMap of the infra namespace, `restored`, a line for each: what was kept elsewhere
for a resource that was made then is not garbage only because the store does not have that resource.
"""

import re
from typing import NamedTuple

from enmasse.base.ids import new_uid
from enmasse.resources import ConfigMap, Key, Resource
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import INFRA_NAMESPACE

RESTORED = Key("ConfigMap", INFRA_NAMESPACE, "restored")

TIMES = "times"
"""The entry that has the lines."""

TIMES_MAX = 100
"""Times that are kept apart; of more the oldest become one."""

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_LINE = re.compile(rf"({_TIME}) ({_TIME})")


class Lost(NamedTuple):
    """A time of which a store knows nothing: both ends belong to it, as resources carry them."""

    since: str
    until: str


def lost(found: Resource | None) -> tuple[Lost, ...]:
    """Return the times that the ConfigMap of a store says; none without it.

    Raises: ValueError for a line that is not two times, with the mend.
    """
    text = found.data.get(TIMES, "") if isinstance(found, ConfigMap) else ""
    times = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if (both := _LINE.fullmatch(line)) is None:
            raise ValueError(
                f"{RESTORED}, data.{TIMES}: {line!r} is not two times; write them as"
                " 2026-01-31T08:00:00Z 2026-01-31T09:00:00Z, or delete the line"
            )
        times.append(Lost(*both.groups()))
    return tuple(times)


def noted(before: tuple[Lost, ...], one: Lost) -> ConfigMap:
    """Return the ConfigMap that says one more time."""
    times = [*before, one]
    while len(times) > TIMES_MAX:
        times[:2] = [Lost(min(times[0].since, times[1].since), max(times[0].until, times[1].until))]
    metadata = NamedMetadata(
        name=RESTORED.name,
        namespace=INFRA_NAMESPACE,
        uid=new_uid(),
        generation=1,
        creation_timestamp=one.until,
    )
    return ConfigMap(metadata=metadata, data={TIMES: "".join(f"{a} {b}\n" for a, b in times)})


def is_lost(moment: str | None, times: tuple[Lost, ...]) -> bool:
    """Whether a moment is in one of some times; one that nobody knows may be."""
    return any(moment is None or one.since <= moment <= one.until for one in times)
