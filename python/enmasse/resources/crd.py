"""Custom resource definitions, made from the models that validate: one for each group and kind.

They are for a Kubernetes API server that is to hold the resources. What its schema language cannot
say (which field goes with which) is left to admission.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from enmasse.resources.address_space_schema import AddressSpaceSchema
from enmasse.resources.documents import KINDS
from enmasse.resources.model import Declared, Resource
from enmasse.resources.schema import schema

Document = dict[str, Any]

SELECTABLE_MAX = 8
"""Fields of a definition that a selector may name, by Kubernetes' own bound."""

_INT_OR_STRING = "x-kubernetes-int-or-string"
_TEXT: Document = {"type": "string"}


def definitions() -> list[Document]:
    """Return them all, in order of their names."""
    models: list[type[Resource]] = [
        *(model for model in KINDS.values() if issubclass(model, Declared)),
        AddressSpaceSchema,
    ]
    found = [one for model in models for one in _of(model)]
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


def _of(model: type[Resource]) -> Iterator[Document]:
    versions = [version.partition("/") for version in _api_versions(model)]
    for group in dict.fromkeys(group for group, _, _ in versions):
        names = [version for own, _, version in versions if own == group]
        yield _definition(model, group, names)


def _api_versions(model: type[Resource]) -> Iterable[str]:
    return (version for version in model.api_versions if "/" in version)


def _definition(model: type[Resource], group: str, versions: list[str]) -> Document:
    kind = model.__name__
    names: Document = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": model.plural,
        "singular": kind.lower(),
    }
    if model.short_names:
        names["shortNames"] = list(model.short_names)
    if model.categories:
        names["categories"] = list(model.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{model.plural}.{group}", "labels": {"app": "enmasse"}},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if model.namespaced else "Cluster",
            "versions": [_version(model, name, is_stored=name == versions[0]) for name in versions],
        },
    }


def _version(model: type[Resource], name: str, *, is_stored: bool) -> Document:
    own = schema(model)
    properties = own["properties"] | {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object"},
    }
    version: Document = {
        "name": name,
        "served": True,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": _structural(own | {"properties": properties})},
        "additionalPrinterColumns": [
            {
                "name": column.name,
                "type": column.type,
                "jsonPath": f".{column.path}",
                **({"priority": column.priority} if column.priority else {}),
            }
            for column in model.columns
        ],
    }
    if "status" in model.model_fields:
        version["subresources"] = {"status": {}}
    selectable = [path for path in model.selectable if path.startswith("spec.")][:SELECTABLE_MAX]
    if selectable:
        version["selectableFields"] = [{"jsonPath": f".{path}"} for path in selectable]
    return version


def _structural(node: Document) -> Document:
    """Return a schema as an API server takes it: of a number or a text only that it is one."""
    if node.get(_INT_OR_STRING):
        described = {name: node[name] for name in ("description",) if name in node}
        either = [{"type": "integer"}, {"type": "string"}]
        return {"anyOf": either, _INT_OR_STRING: True} | described
    found = dict(node)
    if "properties" in found:
        found["properties"] = {name: _structural(one) for name, one in node["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(found.get(inner), dict):
            found[inner] = _structural(found[inner])
    return found
