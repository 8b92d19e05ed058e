"""Usage of deleted address spaces: a space created again under the same name continues it until the
period ends, so that an allowance cannot be used twice.

A ConfigMap per namespace, `usage.NAMESPACE`, holds it in the namespace of the plans, where tenants
have no role.
It survives the process and is shared by all processes of the store.
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
"""Maximum deleted spaces remembered per namespace; those with the least traffic are dropped, so
creating many spaces gains nothing.
"""

_PREFIX = "usage."


class DeletedUsage:
    """The usage records in a store."""

    def __init__(self, store: Store) -> None:
        """Empty before `read`."""
        self._store = store
        self._records: dict[str, dict[str, tuple[Usage, ...]]] = {}
        self._unwritten: set[str] = set()
        """Namespaces with unsaved changes."""

    def read(self) -> None:
        """Read the store. Malformed records are logged and skipped."""
        for one in self._store.list("ConfigMap", INFRA_NAMESPACE):
            if isinstance(one, ConfigMap) and one.metadata.name.startswith(_PREFIX):
                namespace = one.metadata.name.removeprefix(_PREFIX)
                try:
                    self._records[namespace] = {
                        name: tuple(Usage.model_validate(entry) for entry in json.loads(text))
                        for name, text in one.data.items()
                    }
                except (ValueError, ValidationError, TypeError) as error:
                    log.warning("usage of spaces is unknown", resource=str(one.key))
                    log.debug("what cannot be read", reason=str(error))

    def of(self, home: Home) -> tuple[Usage, ...]:
        """Return the usage of a deleted space with that name."""
        return self._records.get(home[0], {}).get(home[1], ())

    def note(self, home: Home, usage: Iterable[Usage], now: datetime) -> None:
        """Remember the usage of a deleted space in the current periods."""
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
        """Write unsaved records, and delete those of past periods.

        Raises: Unavailable if the store fails; the next call retries.
        """
        self._drop_past_periods(now)
        if not self._unwritten:
            return
        some = sorted(self._unwritten)
        # Changes made during the write are saved by the next one.
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

    def _drop_past_periods(self, now: datetime) -> None:
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
