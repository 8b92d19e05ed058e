"""What deleted address spaces had come to: a space that is made anew under the name of one goes on
from it until the period ends, so that an allowance is not had twice.

It is a ConfigMap for each namespace, `usage.NAMESPACE` beside the plans, where tenants have no
role: so it outlives the process, and is there for every other process of the store.
"""

import json
from collections.abc import Iterable
from datetime import datetime

import structlog
from pydantic import ValidationError

from enmasse.control.usage import periods_of
from enmasse.resources import ConfigMap, Key
from enmasse.resources.address_space import Usage
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import INFRA_NAMESPACE
from enmasse.store import Store

log = structlog.get_logger(__name__)

Home = tuple[str, str]
"""Namespace and name of an address space."""

NAMES_MAX = 1_000
"""Deleted spaces of one namespace that are remembered. Of more, those into which least was sent are
forgotten: whoever may make so many spaces gains nothing by it."""

_PREFIX = "usage."


class Departed:
    """The records, in a store."""

    def __init__(self, store: Store) -> None:
        """Nothing is known before `read`."""
        self._store = store
        self._records: dict[str, dict[str, tuple[Usage, ...]]] = {}
        self._unwritten: set[str] = set()
        """Namespaces of which the store says something else."""

    def read(self) -> None:
        """Take in what the store has. What cannot be read is said in the log and passed over."""
        for one in self._store.list("ConfigMap", INFRA_NAMESPACE):
            if isinstance(one, ConfigMap) and one.metadata.name.startswith(_PREFIX):
                namespace = one.metadata.name.removeprefix(_PREFIX)
                try:
                    self._records[namespace] = {
                        name: tuple(Usage.model_validate(entry) for entry in json.loads(text))
                        for name, text in one.data.items()
                    }
                except (ValueError, ValidationError, TypeError) as error:
                    log.warning("what spaces came to is not known", resource=str(one.key))
                    log.debug("what cannot be read", reason=str(error))

    def of(self, home: Home) -> tuple[Usage, ...]:
        """Return what a deleted space of that name had come to."""
        return self._records.get(home[0], {}).get(home[1], ())

    def note(self, home: Home, usage: Iterable[Usage], now: datetime) -> None:
        """Remember what a space that goes has come to in the periods that are now."""
        current = periods_of(now)
        kept = tuple(one for one in usage if one.period in current and one.messages_in)
        if not kept:
            return
        namespace, name = home
        records = self._records.setdefault(namespace, {})
        records[name] = kept
        if len(records) > NAMES_MAX:
            del records[min(records, key=lambda one: max(used.bytes_in for used in records[one]))]
        self._unwritten.add(namespace)

    async def write(self, now: datetime) -> None:
        """Write what is not written, and delete what is of a period that is over.

        Raises: Unavailable if the store takes nothing; it is tried again with the next call.
        """
        self._forget(now)
        if not self._unwritten:
            return
        some = sorted(self._unwritten)
        # What is noted while this is written is to be written the next time.
        self._unwritten.clear()
        new = [_config_map(one, self._records[one]) for one in some if one in self._records]
        gone = [_key(one) for one in some if one not in self._records]
        try:
            if new:
                await self._store.put(new)
            if there := [key for key in gone if self._store.get(key) is not None]:
                await self._store.delete(there)
        except BaseException:
            self._unwritten.update(some)
            raise

    def _forget(self, now: datetime) -> None:
        current = periods_of(now)
        for namespace, records in list(self._records.items()):
            over = [
                name
                for name, usage in records.items()
                if not any(one.period in current for one in usage)
            ]
            for name in over:
                del records[name]
            if over:
                self._unwritten.add(namespace)
            if not records:
                del self._records[namespace]


def _key(namespace: str) -> Key:
    return Key("ConfigMap", INFRA_NAMESPACE, _PREFIX + namespace)


def _config_map(namespace: str, records: dict[str, tuple[Usage, ...]]) -> ConfigMap:
    metadata = NamedMetadata(name=_PREFIX + namespace, namespace=INFRA_NAMESPACE)
    data = {
        name: json.dumps([one.model_dump(by_alias=True) for one in usage], separators=(",", ":"))
        for name, usage in sorted(records.items())
    }
    return ConfigMap(metadata=metadata, data=data)
