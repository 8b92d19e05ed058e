"""Response formats: full resources, metadata only, table rows."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from types import MappingProxyType
from typing import Any

from enmasse.api.http.accept import META_GROUP, WHOLE, Form
from enmasse.api.kinds import Kind
from enmasse.api.resources.selectors import value_at
from enmasse.resources import Resource
from enmasse.resources.model import Column

Document = dict[str, Any]
Shown = Callable[[Resource], Document]
"""Serialises a full resource."""

StatisticsByUid = Mapping[str, Document]
"""Statistics of resources by uid."""

_NAME = Column("Name", "metadata.name")
NONE: StatisticsByUid = MappingProxyType({})
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400


def one(
    kind: Kind,
    form: Form,
    resource: Resource,
    shown: Shown,
    now: datetime,
    statistics: StatisticsByUid = NONE,
) -> Document:
    """Return one resource in a format."""
    if form == WHOLE:
        return shown(resource)
    if form.kind == "Table":
        head = {"resourceVersion": resource.metadata.resource_version}
        return _table(kind, form, [resource], shown, now, head, "Metadata", statistics)
    return _metadata_of(resource, shown, form)


def several(
    kind: Kind,
    form: Form,
    resources: Sequence[Resource],
    shown: Shown,
    now: datetime,
    metadata: Document,
    include: str = "Metadata",
    statistics: StatisticsByUid = NONE,
) -> Document:
    """Return a list in a format; `include` selects the part of a resource in its row."""
    if form.kind == "Table":
        return _table(kind, form, resources, shown, now, metadata, include, statistics)
    if form == WHOLE:
        head = {"kind": f"{kind.name}List", "apiVersion": kind.group_version}
        return head | {"metadata": metadata, "items": [shown(resource) for resource in resources]}
    items = [_metadata_of(resource, shown, form) for resource in resources]
    head = {"kind": "PartialObjectMetadataList", "apiVersion": f"{META_GROUP}/{form.version}"}
    return head | {"metadata": metadata, "items": items}


def bookmark(kind: Kind, form: Form, version: int, annotations: dict[str, str]) -> Document:
    """Return the object of a bookmark: the version up to which a watch is complete."""
    metadata: Document = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    if form == WHOLE:
        return {"kind": kind.name, "apiVersion": kind.group_version, "metadata": metadata}
    document = {"kind": form.kind, "apiVersion": f"{META_GROUP}/{form.version}"}
    return document | {"metadata": metadata} | ({"rows": []} if form.kind == "Table" else {})


def age(moment: str, now: datetime) -> str:
    """Format an elapsed time in at most two units, as kubectl does."""
    try:
        seconds = int((now - datetime.fromisoformat(moment)).total_seconds())
    except ValueError:
        return "<unknown>"
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    for below, unit, name, smaller, smaller_name in (
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if seconds < below:
            whole, rest = divmod(seconds, unit)
            more = rest // smaller if smaller else 0
            return f"{whole}{name}{more}{smaller_name}" if more else f"{whole}{name}"
    return f"{seconds // _YEAR}y"


def _table(
    kind: Kind,
    form: Form,
    resources: Sequence[Resource],
    shown: Shown,
    now: datetime,
    metadata: Document,
    include: str,
    statistics: StatisticsByUid,
) -> Document:
    # The last column is the age; kubectl shows it last in every table.
    *leading, last = kind.model.columns
    live = kind.model.live_columns
    columns = (_NAME, *leading, *live, last)
    return {
        "kind": "Table",
        "apiVersion": f"{META_GROUP}/{form.version}",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [
            {
                "cells": [
                    _cell(resource, _NAME, now),
                    *(_cell(resource, column, now) for column in leading),
                    *_live_cells(statistics.get(resource.metadata.uid or ""), live),
                    _cell(resource, last, now),
                ],
                "object": _beside(resource, shown, form, include),
            }
            for resource in resources
        ],
    }


def _definition(column: Column) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column is _NAME else "",
        "description": f"{column.path} of the resource",
        "priority": column.priority,
    }


def _cell(resource: Resource, column: Column, now: datetime) -> Any:
    value = value_at(resource, column.path)
    if column.type == "date":
        return age(value, now) if value else "<unknown>"
    if isinstance(value, tuple):
        return "; ".join(str(part) for part in value)
    if value is None:
        return ""
    return value


def _live_cells(statistics: Document | None, columns: Sequence[Column]) -> list[Any]:
    """Return the statistics cells; empty if there are none, as in a watch."""
    if statistics is None:
        return [""] * len(columns)
    return [
        reduce(lambda inner, name: inner[name], column.path.split("."), statistics)
        for column in columns
    ]


def _beside(resource: Resource, shown: Shown, form: Form, include: str) -> Document | None:
    if include == "None":
        return None
    return shown(resource) if include == "Object" else _metadata_of(resource, shown, form)


def _metadata_of(resource: Resource, shown: Shown, form: Form) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{form.version}",
        "metadata": shown(resource)["metadata"],
    }
