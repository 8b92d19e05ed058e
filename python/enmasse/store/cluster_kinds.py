"""The Kubernetes form of resources: paths and documents."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from enmasse.base.errors import Code, Invalid
from enmasse.resources import KINDS, Declared, Key, Resource, invalid, parse
from enmasse.resources.conditions import READY
from enmasse.resources.core import ConfigMap, Namespace, Secret, Service
from enmasse.resources.crd import home
from enmasse.resources.model import Metadata
from enmasse.store.cluster_api import MANAGER

MARK, MARKED = "app", "enmasse"
"""Label of our Secrets, ConfigMaps and Services; others are ignored."""

REFUSED = "Refused"
"""Condition reason of a resource that bypassed admission and is not allowed."""

_METADATA = {field.alias for field in Metadata.model_fields.values()}
_SERVERS = ("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
Document = dict[str, Any]


class ClusterKind:
    """One kind: its paths and the progress of its watch."""

    def __init__(self, model: type[Resource]) -> None:
        self.model = model
        self.name = model.__name__
        self.progress = 0
        """Version up to which all changes of the kind have been received."""

        self.is_marked = issubclass(model, Secret | ConfigMap | Service)
        self.selection = {"labelSelector": f"{MARK}={MARKED}"} if self.is_marked else {}
        self._version = home(model)
        self._base = ("/apis/" if "/" in self._version else "/api/") + self._version

    def several(self, namespace: str | None = None) -> str:
        """Return the collection path, for all namespaces or one."""
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self._base}{within}/{self.model.plural}"

    def one(self, key: Key) -> str:
        """Return the path of one resource."""
        return f"{self.several(key.namespace)}/{quote(key.name, safe='')}"

    def key(self, document: Document) -> Key:
        """Return the key of a server document."""
        metadata = document["metadata"]
        return Key(self.name, metadata.get("namespace", ""), metadata["name"])

    def document(self, resource: Resource, *, version: str | None, uid: str | None) -> Document:
        """Return the document to write, with a version as precondition if there is one."""
        document = resource.document() | {"apiVersion": self._version}
        document.pop("status", None)
        metadata = document["metadata"]
        kept = {name: one for name, one in metadata.items() if name not in _SERVERS}
        kept |= {"resourceVersion": version, "uid": uid}
        if self.is_marked:
            kept["labels"] = kept.get("labels", {}) | {MARK: MARKED}
        if managed := kept.get("managedFields"):
            kept["managedFields"] = [one | {"apiVersion": self._version} for one in managed]
        document["metadata"] = {name: one for name, one in kept.items() if one is not None}
        return document

    def resource(self, document: Document) -> Resource:
        """Return the resource of a server document.

        Raises: Invalid if it is malformed.
        """
        known = {field.alias for field in self.model.model_fields.values()}
        found = {name: one for name, one in document.items() if name in known}
        found |= {"apiVersion": self.model.api_versions[0], "kind": self.name}
        if issubclass(self.model, Namespace):
            # The phase Terminating is derived from the deletion time; do not store it.
            found.pop("status", None)
        metadata = {name: one for name, one in document["metadata"].items() if name in _METADATA}
        metadata["managedFields"] = [
            one | {"apiVersion": self.model.api_versions[0]}
            for one in metadata.get("managedFields", ())
            # The requester already has a managedFields entry if the write came through our API.
            if one.get("manager") != MANAGER
        ]
        if self.is_marked:
            labels = metadata.get("labels", {})
            metadata["labels"] = {name: one for name, one in labels.items() if name != MARK}
        return parse(found | {"metadata": metadata}, stored=True)

    def admitted(self, document: Document, before: Resource | None) -> Resource:
        """Return the resource of a document if admission would accept it on its own.

        A resource that is served unchanged has been accepted before and stays accepted.

        Raises: Invalid if it is not allowed.
        """
        resource = self.resource(document)
        if not isinstance(resource, Declared) or _is_served(document):
            return resource
        found = resource.faults()
        if isinstance(before, type(resource)) and before.metadata.uid == resource.metadata.uid:
            found += resource.refused_changes(before)
        if found:
            raise invalid(self.name, resource.metadata.name, found)
        if is_refused(document):
            # Relative to its former state, which is no longer known.
            raise Invalid(
                Code.FIELD_INVALID, str((document["status"].get("messages") or [REFUSED])[0])
            )
        return resource


def kinds() -> dict[str, ClusterKind]:
    """Return all stored kinds by name."""
    return {name: ClusterKind(model) for name, model in KINDS.items()}


def version_of(document: Mapping[str, Any]) -> int:
    """Return the version of a server document."""
    return int(document["metadata"]["resourceVersion"])


def is_refused(document: Document) -> bool:
    """Whether the status of a document already reports it as refused in its present form."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    reasons = {one.get("type"): one.get("reason") for one in conditions}
    return reasons.get(READY) == REFUSED and _is_of_now(document)


def _is_served(document: Document) -> bool:
    return bool((document.get("status") or {}).get("isReady")) and _is_of_now(document)


def _is_of_now(document: Document) -> bool:
    return bool(
        document["status"].get("observedGeneration") == document["metadata"].get("generation")
    )
