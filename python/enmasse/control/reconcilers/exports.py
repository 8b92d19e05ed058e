"""Exports of endpoints: ConfigMaps, Secrets and Services in the namespace of the space.

They contain what clients need (host, ports, CA) and no private key. Each belongs to its space,
follows its status, and is deleted with the space or the export declaration. An object of that name
with another owner is left unchanged.
"""

import base64
from collections.abc import Collection, Iterable, Iterator

from enmasse.control.endpoints import PlatformListeners, is_host_name
from enmasse.control.inventory import ATTACHED, Inventory
from enmasse.control.work_queue import Batch, WorkQueue
from enmasse.resources import AddressSpace, ConfigMap, Key, Resource, Secret, Service
from enmasse.resources.core import NamedMetadata
from enmasse.resources.endpoints import EndpointStatus, Export
from enmasse.resources.model import OwnerReference
from enmasse.store import Store

EXPORTED_BY = "enmasse.io/exported-by"
"""Label: uid of the space of an export."""


class Exports:
    """Writes the exports of spaces into a store."""

    def __init__(self, store: Store, inventory: Inventory, queue: WorkQueue) -> None:
        """Nothing is written before the listeners are known."""
        self._store = store
        self._inventory = inventory
        self._queue = queue
        self.place: PlatformListeners | None = None
        """The listeners of the platform."""

        self._written: dict[Key, str] = {}
        """Existing exports, and the uids of their spaces."""

        self._awaited: dict[Key, str] = {}
        """Objects of other owners with the name of an export, and the uids of the spaces."""

        self._problems: dict[Key, str] = {}
        self._known = False

    def set_listeners(self, place: PlatformListeners) -> None:
        """Set the listeners of the platform; the next pass updates the statuses of all spaces."""
        self.place = place
        self._queue.add(self._inventory.keys("AddressSpace"))
        self._queue.wake()

    async def reconcile(self, batch: Batch) -> None:
        """Synchronise exports with the statuses just written. Spaces whose problems changed go
        into the queue, because their statuses are written already.

        Raises: Unavailable if the store fails.
        """
        if self.place is None:
            return
        spaces = self._inventory.spaces(batch.keys, self.spaces_of(batch.attached))
        self._queue.add(await self.follow(spaces, batch.ended_spaces))

    def problem(self, space: Key) -> str | None:
        """Return the exports of a space that could not be written, with reasons."""
        return self._problems.get(space)

    def spaces_of(self, keys: Collection[Key]) -> set[str]:
        """Return the uids of the spaces whose exports, or conflicting objects, are among `keys`."""
        known = self._awaited | self._written
        return {known[key] for key in keys if key in known}

    async def follow(self, spaces: Iterable[AddressSpace], gone: Collection[str]) -> set[Key]:
        """Synchronise exports with the statuses of some spaces, and delete those of deleted spaces,
        by uid. Returns the spaces whose problems changed.

        The first call receives all spaces; exports of other spaces are deleted.

        Raises: Unavailable if the store fails.
        """
        spaces = list(spaces)
        gone = set(gone)
        if not self._known:
            self._find()
            gone |= set(self._written.values()) - {one.metadata.uid for one in spaces}
            self._known = True
        differing = set()
        new: list[Resource] = []
        unwanted = {key for key, uid in self._written.items() if uid in gone}
        for space in spaces:
            if space.metadata.uid in gone or space.is_terminating:
                continue
            self._awaited = {
                key: uid for key, uid in self._awaited.items() if uid != space.metadata.uid
            }
            wanted, problems = self._wanted(space)
            new += wanted
            keys = {one.key for one in wanted}
            unwanted |= {
                key
                for key, uid in self._written.items()
                if uid == space.metadata.uid and key not in keys
            }
            if (problem := "; ".join(problems)) != self._problems.pop(space.key, ""):
                differing.add(space.key)
            if problem:
                self._problems[space.key] = problem
        await self._write(new)
        await self._delete(unwanted)
        return differing

    def _find(self) -> None:
        for kind in ATTACHED:
            for one in self._store.list(kind):
                if (uid := one.metadata.labels.get(EXPORTED_BY)) is not None:
                    self._written[one.key] = uid

    def _wanted(self, space: AddressSpace) -> tuple[list[Resource], list[str]]:
        statuses = {one.name: one for one in space.status.endpoint_statuses or ()}
        found: list[Resource] = []
        problems = []
        for endpoint in space.spec.endpoints:
            for export in endpoint.exports:
                # An export that cannot be written does not keep the others from being written.
                status = statuses.get(endpoint.name)
                if status is None:
                    problems.append(
                        f"{endpoint.name} is not served, so {export.name} is not written"
                    )
                    continue
                wanted = exported(space, status, export)
                if wanted is None:
                    problems.append(
                        f"Service {export.name}: {status.service_host} is not a"
                        " host name; set routeHost, or listen on a host name"
                        " (--host)"
                    )
                    continue
                there = self._store.get(wanted.key)
                if there is not None and not _is_of(there, space):
                    self._awaited[wanted.key] = space.metadata.uid or ""
                    problems.append(
                        f"{export.kind} {export.name} already exists and does"
                        " not belong to this space; delete it, or choose"
                        " another name"
                    )
                    continue
                found.append(wanted)
        return found, problems

    async def _write(self, wanted: Collection[Resource]) -> None:
        new = [one for one in wanted if not self._is_there(one)]
        if new:
            async with self._store.turn() as turn:
                await turn.put(new)
        for one in wanted:
            self._written[one.key] = one.metadata.labels[EXPORTED_BY]

    def _is_there(self, wanted: Resource) -> bool:
        there = self._store.get(wanted.key)
        if there is None or type(there) is not type(wanted):
            return False
        same = there.metadata.labels.get(EXPORTED_BY) == wanted.metadata.labels[EXPORTED_BY]
        return same and _data(there, wanted) == _data(wanted, wanted)

    async def _delete(self, keys: Collection[Key]) -> None:
        async with self._store.turn() as turn:
            there = [key for key in sorted(keys) if self._is_ours(key)]
            if there:
                await turn.delete(there)
        for key in keys:
            self._written.pop(key, None)

    def _is_ours(self, key: Key) -> bool:
        there = self._store.get(key)
        return there is not None and there.metadata.labels.get(EXPORTED_BY) == self._written[key]


def exported(space: AddressSpace, status: EndpointStatus, export: Export) -> Resource | None:
    """Return the content of an export of an endpoint; None if such a Service is impossible."""
    uid = space.metadata.uid or ""
    # By the label this space finds its exports again; by the owner reference Kubernetes deletes
    # them with the space.
    metadata = NamedMetadata(
        name=export.name,
        namespace=space.metadata.namespace,
        labels={EXPORTED_BY: uid},
        owner_references=(
            OwnerReference(
                api_version=space.api_version,
                kind=space.kind,
                name=space.metadata.name,
                uid=uid,
                controller=True,
                block_owner_deletion=False,
            ),
        ),
    )
    if export.kind == "Service":
        # An ExternalName is a DNS name; an IP address cannot be one.
        host = status.service_host or ""
        if not is_host_name(host):
            host = status.external_host or ""
        if not is_host_name(host) or not host:
            return None
        ports = [
            {"name": one.name, "port": one.port, "protocol": "TCP", "targetPort": one.port}
            for one in status.service_ports
        ]
        spec = {"type": "ExternalName", "externalName": host, "ports": ports}
        return Service(metadata=metadata, spec=spec)
    texts = dict(_texts(space, status))
    if export.kind == "ConfigMap":
        return ConfigMap(metadata=metadata, data=texts)
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    return Secret(metadata=metadata, data=data)


def _texts(space: AddressSpace, status: EndpointStatus) -> Iterator[tuple[str, str]]:
    """Yield the settings that a client needs, with the names of the original."""
    yield "service.host", status.service_host or ""
    for one in status.service_ports:
        yield f"service.port.{one.name}", str(one.port)
    if status.external_host:
        yield "external.host", status.external_host
    for one in status.external_ports:
        yield f"external.port.{one.name}", str(one.port)
    # If several spaces share a host, the TLS server name selects the space.
    yield "service.name", f"{space.metadata.name}.{space.metadata.namespace}"
    if space.status.ca_cert:
        yield "ca.crt", base64.b64decode(space.status.ca_cert).decode()


def _is_of(there: Resource, space: AddressSpace) -> bool:
    return there.metadata.labels.get(EXPORTED_BY) == space.metadata.uid


def _data(one: Resource, wanted: Resource) -> object:
    """Return the compared part of an export; a cluster may fill in other fields of a Service."""
    if isinstance(one, Service) and isinstance(wanted, Service):
        return {name: one.spec.get(name) for name in wanted.spec}
    return one.data if isinstance(one, ConfigMap | Secret) else None
