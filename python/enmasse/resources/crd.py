"""Custom resource definitions, generated from the validating models: one for each kind.

They are for a Kubernetes API server that stores the resources. A kind with several groups is stored
under the group of the original EnMasse, where manifests expect it. Admission checks what the schema
language cannot express, such as mutually exclusive fields.
"""

from typing import Any

from enmasse.resources.address_space_schema import AddressSpaceSchema
from enmasse.resources.documents import KINDS
from enmasse.resources.model import Declared, Resource
from enmasse.resources.schema import schema

Document = dict[str, Any]

SELECTABLE_MAX = 8
"""Maximum fields of a definition for selectors, as in Kubernetes."""

_INT_OR_STRING = "x-kubernetes-int-or-string"
_ANYTHING = "x-kubernetes-preserve-unknown-fields"
_TEXT: Document = {"type": "string"}


def definitions() -> list[Document]:
    """Return all of them in order of their names."""
    models: list[type[Resource]] = [
        *(model for model in KINDS.values() if "/" in home(model)),
        AddressSpaceSchema,
    ]
    return sorted(map(_definition, models), key=lambda one: str(one["metadata"]["name"]))


def home(model: type[Resource]) -> str:
    """Return the `apiVersion` under which an API server stores a kind; `v1` for a core kind."""
    group, slash, _ = model.api_versions[-1].rpartition("/")
    return next(one for one in model.api_versions if one.startswith(f"{group}{slash}"))


def _definition(model: type[Resource]) -> Document:
    kind, group = model.__name__, home(model).partition("/")[0]
    versions = [one.partition("/")[2] for one in model.api_versions if one.startswith(f"{group}/")]
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
    if (rules := _immutable(model)) and "spec" in own["properties"]:
        spec = own["properties"]["spec"] | {"x-kubernetes-validations": rules}
        own = own | {"properties": own["properties"] | {"spec": spec}}
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
    # Kubernetes always accepts metadata fields, and a limited number of others.
    selectable = [path for path in model.selectable if path.startswith("spec.")][:SELECTABLE_MAX]
    if selectable:
        version["selectableFields"] = [{"jsonPath": f".{path}"} for path in selectable]
    return version


def _immutable(model: type[Resource]) -> list[Document]:
    """Return the rules by which an API server refuses changes of immutable fields."""
    if not issubclass(model, Declared):
        return []
    fields = model.model_fields["spec"].annotation.model_fields  # type: ignore[union-attr]
    names = [fields[name].alias or name for name in model.immutable]
    return [
        {
            "rule": f"has(self.{name}) == has(oldSelf.{name})"
            f" && (!has(self.{name}) || self.{name} == oldSelf.{name})",
            "message": (f"{name} cannot change; delete the resource and create it again"),
        }
        for name in names
    ]


def _structural(node: Document) -> Document:
    """Return a schema that an API server accepts: only the type of a number or text, no
    alternatives, and no defaults, which the reader of a stored resource applies.
    """
    described = {name: node[name] for name in ("description",) if name in node}
    if "anyOf" in node and not node.get(_INT_OR_STRING):
        return {_ANYTHING: True} | described
    if node.get(_INT_OR_STRING):
        either = [{"type": "integer"}, {"type": "string"}]
        return {"anyOf": either, _INT_OR_STRING: True} | described
    found = {name: one for name, one in node.items() if name != "default"}
    if "properties" in found:
        found["properties"] = {name: _structural(one) for name, one in node["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(found.get(inner), dict):
            found[inner] = _structural(found[inner])
    return found
