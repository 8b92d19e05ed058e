"""Writes of one resource: create, replace, patch, apply."""

import secrets
import string
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.accept import form_of
from enmasse.api.http.bodies import in_turn, is_large, json_body, media_type, object_body
from enmasse.api.kinds import Kind
from enmasse.api.platform import Platform
from enmasse.api.resources import field_managers, patches, representations
from enmasse.api.resources.queries import WriteQuery
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Code, Conflict, Fault, Invalid, Missing
from enmasse.resources import Key, Resource, invalid, one_document, parse, pruned
from enmasse.resources.shape import (
    RESOURCE_BYTES_MAX,
    RESOURCE_VALUES_MAX,
    excess,
    unwritable,
)
from enmasse.store.protocol import MUST_NOT_EXIST

ATTEMPTS = 5
"""Attempts of a write without a version on a concurrently changing resource."""

VALUES_AT_ONCE_MAX = 5_000
"""Maximum values of a stored document that is changed on the event loop; larger ones take turns."""

MANAGED_VALUES_MAX = 20 * RESOURCE_VALUES_MAX
"""Maximum values of managedFields: each manager may own all fields."""

WARNINGS_MAX = 20
"""Maximum unknown fields in a warning."""

_LETTERS = string.ascii_lowercase + string.digits
Document = dict[str, Any]


class Read(NamedTuple):
    """A body and its unknown fields."""

    resource: Resource
    unknown: list[Fault]


class Change(NamedTuple):
    """The document to write, with its managed fields."""

    read: Read
    entries: list[field_managers.Entry]


class Write:
    """A request that writes a resource of a kind."""

    def __init__(self, platform: Platform, kind: Kind, request: Request) -> None:
        """Parse the options of the request.

        Raises: Invalid if a parameter or the response format is invalid.
        """
        self._platform = platform
        self._kind = kind
        self._request = request
        self._form = form_of(request.headers.get("accept"))
        self._query = WriteQuery.of(request.query_params, request.headers.get("user-agent", ""))

    async def create(self, namespace: str | None) -> Response:
        """Handle POST on a collection."""
        data = _named(await object_body(self._request))
        if _member(data, "metadata").get("resourceVersion"):
            # A client that has read the resource means to change it.
            message = "resourceVersion should not be set on objects to be created"
            raise Invalid(Code.REQUEST_INVALID, message)

        def made() -> Change:
            read = _read(data, self._kind, namespace, None, self._query.validation)
            return Change(read, self._updated([], None, read))

        return await self._created(made)

    async def replace(self, key: Key) -> Response:
        """Handle PUT on one resource.

        Raises: Invalid without a version, except for kinds of `v1`, as an API server does: a
            concurrent change would be lost.
        """
        data = await object_body(self._request)
        there = self._platform.store_of(self._kind.model).get(key)
        versioned = _member(data, "metadata").get("resourceVersion")
        if there is not None and self._kind.group and not versioned:
            fault = Fault("metadata.resourceVersion", "must be specified for an update")
            message = f'{self._kind.qualified} "{key.name}" is invalid: {fault}'
            raise Invalid(Code.FIELD_INVALID, message, faults=[fault], name=key.name)
        return await self._change(key, lambda _: data)

    async def patch(self, key: Key) -> Response:
        """Handle PATCH on one resource."""
        media = media_type(self._request)
        if media == patches.APPLY:
            return await self._apply(key)
        patch = _patcher(self._kind, media, await json_body(self._request))

        def patched(before: Document) -> Any:
            data = patch(before)
            _check_shape(data)
            return data

        return await self._change(key, patched)

    async def _change(self, key: Key, make: Callable[[Document], Any]) -> Response:
        def change(before: Document) -> Change:
            data = make(before)
            if not isinstance(data, dict):
                raise Invalid(Code.PATCH_UNFIT, "the patched document is not a resource")
            read = _read(data, self._kind, key.namespace, key.name, self._query.validation)
            # Only differences count: clients send back what they read.
            known = before["metadata"].get("managedFields", [])
            sent_fields = _member(data, "metadata").get("managedFields", known)
            entries = field_managers.entries_of(sent_fields)
            if sent_fields != known:
                return Change(read, entries)
            return Change(read, self._updated(entries, before, read))

        return await self._replaced(key, change)

    async def _apply(self, key: Key) -> Response:
        text = (await self._request.body()).decode(errors="replace")
        config = await in_turn(
            self._request,
            lambda: self._configuration(key, one_document(text)),
            large=await is_large(self._request),
        )
        if not self._request.query_params.get("fieldManager"):
            fault = Fault("fieldManager", "is required for an apply")
            raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])

        # Called within the write, and again if another writer came first.
        def change(before: Document | None) -> Change:
            unknown: list[Fault] = []

            def read(document: Document) -> Read:
                _check_shape(document)
                found = _read(document, self._kind, key.namespace, key.name, self._query.validation)
                unknown[:] = found.unknown
                return found

            entries = field_managers.entries_of(
                before["metadata"].get("managedFields", []) if before else []
            )
            merged, entries = field_managers.applied(
                entries,
                before,
                config,
                self._writer(),
                lambda document: self._document(read(document).resource),
                force=self._query.force,
            )
            if version := _member(config, "metadata").get("resourceVersion"):
                merged["metadata"]["resourceVersion"] = version
            return Change(read(merged), entries)

        # An apply creates or changes. Another writer may create in between: then it changes.
        if self._platform.store_of(self._kind.model).get(key) is None:
            try:
                return await self._created(lambda: change(None))
            except Conflict as error:
                if error.code != Code.ALREADY_EXISTS:
                    raise
        return await self._replaced(key, change)

    def _configuration(self, key: Key, config: object) -> Document:
        """Return the applied configuration without unknown fields."""
        if not isinstance(config, dict):
            raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be one resource")
        wanted = {"apiVersion": self._kind.group_version, "kind": self._kind.name}
        faults = [
            Fault(name, f"must be {value} on this path")
            for name, value in wanted.items()
            if config.get(name) != value
        ]
        metadata = _member(config, "metadata")
        for name, value in (("name", key.name), ("namespace", key.namespace)):
            if metadata.get(name, value) != value:
                faults.append(Fault(f"metadata.{name}", f"must be {value!r}, as in the path"))
        if metadata.get("managedFields"):
            faults.append(Fault("metadata.managedFields", "must be absent in an apply"))
        if faults:
            raise invalid(self._kind.name, key.name, faults)
        if self._query.validation == "Strict":
            return config
        known, _ = pruned(config)
        return {name: one for name, one in known.items() if name in config}

    async def _replaced(self, key: Key, change: Callable[[Document], Change]) -> Response:
        for attempt in range(1, ATTEMPTS + 1):
            stored = self._platform.store_of(self._kind.model).get(key)
            if stored is None:
                raise Missing(
                    Code.RESOURCE_MISSING, f'{self._kind.qualified} "{key.name}" not found'
                )
            document = self._document(stored)
            large = await is_large(self._request) or excess(document, VALUES_AT_ONCE_MAX)
            read, entries = await in_turn(
                self._request, partial(change, document), large=bool(large)
            )
            version = stored.metadata.resource_version
            named = read.resource.metadata.resource_version
            has_version = named not in (None, MUST_NOT_EXIST, version)
            # The present version is a precondition, so a concurrent change is detected.
            resource = read.resource.with_metadata(
                resource_version=named if has_version else version,
                managed_fields=field_managers.managed_fields(entries),
            )
            try:
                done = await self._platform.admission.replace(resource, dry_run=self._query.dry_run)
                return self._answer(done, read.unknown)
            except Conflict as error:
                last = has_version or attempt == ATTEMPTS
                if last or error.code != Code.VERSION_CONFLICT:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _created(self, make: Callable[[], Change]) -> Response:
        large = await is_large(self._request)
        read, entries = await in_turn(self._request, make, large=large)
        managed = field_managers.managed_fields(entries)
        resource = read.resource.with_metadata(managed_fields=managed)
        try:
            made = await self._platform.admission.create(resource, dry_run=self._query.dry_run)
        except Conflict as error:
            if error.code == Code.ALREADY_EXISTS:
                name = resource.metadata.name
                error.message = f'{self._kind.qualified} "{name}" already exists'
                error.context["name"] = name
            raise
        return self._answer(made, read.unknown, 201)

    def _updated(
        self, entries: list[field_managers.Entry], before: Document | None, read: Read
    ) -> list[field_managers.Entry]:
        after = self._document(read.resource)
        return field_managers.updated(entries, before, after, self._writer())

    def _writer(self) -> field_managers.Writer:
        return field_managers.Writer(
            self._query.manager,
            self._kind.group_version,
            rfc3339(self._platform.clock.now()),
            self._kind.model.write_only,
        )

    def _document(self, resource: Resource) -> Document:
        return resource.public().document() | {"apiVersion": self._kind.group_version}

    def _answer(self, resource: Resource, unknown: list[Fault], status: int = 200) -> Response:
        now = self._platform.clock.now()
        document = representations.one(self._kind, self._form, resource, self._document, now)
        answer = JSONResponse(document, status)
        if self._query.validation == "Warn":
            for fault in unknown[:WARNINGS_MAX]:
                answer.headers.append("Warning", _warning(fault))
        return answer


def _named(data: Document) -> Document:
    """Return a body with a name, generated from `generateName` if absent."""
    metadata = _member(data, "metadata")
    begin = metadata.get("generateName")
    if metadata.get("name") or not isinstance(begin, str):
        return data
    name = begin + "".join(secrets.choice(_LETTERS) for _ in range(5))
    return data | {"metadata": metadata | {"name": name}}


def _read(
    data: Document, kind: Kind, namespace: str | None, name: str | None, validation: str
) -> Read:
    """Return the resource of a body, which must match the path."""
    head: Document = {"kind": kind.name, "apiVersion": kind.group_version}
    data = head | data
    if data["kind"] != kind.name:
        raise invalid(kind.name, name or "", [Fault("kind", f"must be {kind.name} on this path")])
    if isinstance(data.get("metadata", {}), dict):
        metadata = _member(data, "metadata")
        data = data | {"metadata": metadata}
        wanted = {"namespace": namespace if kind.model.namespaced else None, "name": name}
        for field, value in wanted.items():
            if value is not None and metadata.setdefault(field, value) != value:
                fault = Fault(f"metadata.{field}", f"must be {value!r}, as in the path")
                raise invalid(kind.name, name or "", [fault])
    try:
        return Read(parse(data), [])
    except Invalid:
        if validation == "Strict":
            raise
    known, unknown = pruned(data)
    return Read(parse(known), unknown)


def _patcher(kind: Kind, media: str, patch: Any) -> Callable[[Document], Any]:
    """Return the function that applies a patch of a media type.

    Raises: Invalid if the kind does not support it.
    """
    known = [patches.MERGE, patches.JSON]
    if media == patches.JSON:
        return lambda document: patches.json_patch(document, patch)
    if media == patches.MERGE and isinstance(patch, dict):
        return lambda document: patches.merge_patch(document, patch)
    if media == patches.STRATEGIC and not kind.group and isinstance(patch, dict):
        return lambda document: patches.strategic_merge_patch(document, patch)
    if media in (patches.MERGE, patches.STRATEGIC) and not isinstance(patch, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be a JSON object")
    raise Invalid(
        Code.PATCH_UNSUPPORTED,
        f"patch type {media!r} is not supported; send {' or '.join(known)}",
    )


def _check_shape(patched: Any) -> None:
    """Check that a patched document is within the limits of a body and of a resource.

    managedFields belong to the server and are counted separately.

    Raises: Invalid if a limit is exceeded.
    """
    metadata = patched.get("metadata") if isinstance(patched, dict) else None
    managed: object = ()
    if isinstance(metadata, dict):
        managed = metadata.get("managedFields")
        rest = {name: value for name, value in metadata.items() if name != "managedFields"}
        patched = patched | {"metadata": rest}
    problem = excess(patched) or unwritable(patched, RESOURCE_BYTES_MAX)
    if problem := problem or excess(managed, MANAGED_VALUES_MAX):
        raise Invalid(Code.PATCH_UNFIT, f"the patched resource is invalid: {problem}")


def _member(data: Document, name: str) -> Document:
    value = data.get(name)
    return dict(value) if isinstance(value, dict) else {}


def _warning(fault: Fault) -> str:
    """Write a fault as a Warning header (RFC 9111, 5.5)."""
    text = f'unknown field "{fault.field}"'.encode("ascii", "backslashreplace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{"".join(one for one in escaped if one.isprintable())}"'
