"""Reference pages of the kinds, generated from their models. Pure.

`scripts/reference.py` writes them into `docs/reference`; a test checks that they are up to date.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from enmasse.resources.address import Address
from enmasse.resources.address_rules import ALLOWED
from enmasse.resources.address_space_schema import AddressSpaceSchema
from enmasse.resources.documents import KINDS
from enmasse.resources.model import Declared, Resource
from enmasse.resources.schema import schema

Schema = Mapping[str, Any]

INDEX = "index.md"
_HEAD = "<!-- Made by scripts/reference.py from the models: change those, and run it again. -->"
_PARTS = ("spec", "type", "data", "binaryData", "stringData", "immutable", "status")
"""Sections of a page, in order."""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    models: list[type[Resource]] = [*KINDS.values(), AddressSpaceSchema]
    models.sort(key=lambda model: model.__name__)
    found = {file_of(model): _page(model) for model in models}
    return {INDEX: _index(models)} | found


def file_of(model: type[Resource]) -> str:
    """Return the file name of a kind's page."""
    return f"{model.__name__.lower()}.md"


def _index(models: list[type[Resource]]) -> str:
    rows = [
        (f"[{model.__name__}]({file_of(model)})", _versions(model), _described(schema(model)))
        for model in models
    ]
    intro = (
        "Every kind, field by field. `kubectl explain` shows the same, and"
        " `enmasse crds` prints custom resource definitions."
    )
    return "\n".join(
        [_HEAD, "", "# Kinds", "", intro, "", *_table(("kind", "API version", "what it is"), rows)]
    )


def _page(model: type[Resource]) -> str:
    own = schema(model)
    facts = [
        ("API version", _versions(model)),
        ("in paths", f"`{model.plural}`"),
        ("short names", ", ".join(f"`{name}`" for name in model.short_names)),
        ("lives in", "a namespace" if model.namespaced else "no namespace"),
        ("made by", "the platform; it is only read" if model.read_only else ""),
        ("name", "one through all namespaces" if model.unique else ""),
        ("cannot change", ", ".join(f"`spec.{name}`" for name in _immutable(model))),
        ("never shown again", ", ".join(f"`{path}`" for path in model.write_only)),
        ("field selectors", ", ".join(f"`{path}`" for path in model.selectable)),
    ]
    lines = [_HEAD, "", f"# {model.__name__}", "", _described(own), ""]
    lines += _table(("", ""), [(name, value) for name, value in facts if value])
    for part in _PARTS:
        if part in own["properties"]:
            lines += _part(model, part, own["properties"][part])
    return "\n".join(lines)


def _part(model: type[Resource], part: str, own: Schema) -> Iterator[str]:
    has_types = model is Address and part == "spec"
    rows = [
        (f"`{path}`", kind, default, *([_types(path)] if has_types else []), what)
        for path, kind, default, what in _rows(part, own, is_required=False)
    ]
    if not rows:
        return
    headings = ("field", "type", "if left out", *(["types"] if has_types else []), "what it is")
    yield from (f"## {part}", "")
    yield from _table(headings, rows)


def _rows(path: str, own: Schema, *, is_required: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield a field and its subfields: path, type, default, description."""
    inner = own.get("items", {}) if own.get("type") == "array" else own
    inner = next((one for one in inner.get("anyOf", ()) if "properties" in one), inner)
    if "." in path or "properties" not in inner:
        default = own.get("default")
        shown = "required" if is_required else "" if default is None else f"`{_value(default)}`"
        yield path, _type(own), shown, _described(own)
    below = f"{path}[]" if own.get("type") == "array" else path
    for name, field in inner.get("properties", {}).items():
        required = name in inner.get("required", ())
        yield from _rows(f"{below}.{name}", field, is_required=required)


def _type(own: Schema) -> str:
    """Return the type or allowed values of a field."""
    if "enum" in own:
        return ", ".join(f"`{one}`" for one in own["enum"])
    if own.get("x-kubernetes-int-or-string"):
        return "number, or text with a unit"
    if "anyOf" in own:
        return " or ".join(_type(one) for one in own["anyOf"])
    kind = str(own.get("type", "any"))
    if kind == "array":
        return f"list of {_type(own.get('items', {}))}"
    inner = own.get("additionalProperties")
    if kind == "object" and isinstance(inner, Mapping):
        return f"{_type(inner)} by name"
    return f"{kind}{_bounds(own)}"


def _bounds(own: Schema) -> str:
    least, most = own.get("minimum"), own.get("maximum")
    if least is None and most is None:
        return ""
    begin = "above " if own.get("exclusiveMinimum") else "from "
    end = "below " if own.get("exclusiveMaximum") else "to "
    parts = [begin + f"{least:,}"] if least is not None else []
    parts += [end + f"{most:,}"] if most is not None else []
    return f" {' '.join(parts)}"


def _types(path: str) -> str:
    """Return the address types that support a field."""
    name = path.removeprefix("spec.")
    found = ALLOWED.get(name) or ALLOWED.get(name.partition(".")[0])
    # A field without a row of its own, such as `limits`, is supported by types that support one of
    # its subfields.
    return ", ".join(found) if found else "all"


def _immutable(model: type[Resource]) -> tuple[str, ...]:
    names = model.immutable if issubclass(model, Declared) else ()
    spec = model.model_fields.get("spec")
    fields = getattr(spec.annotation, "model_fields", {}) if spec else {}
    return tuple(fields[name].alias or name for name in names if name in fields)


def _versions(model: type[Resource]) -> str:
    return ", ".join(f"`{version}`" for version in model.api_versions)


def _described(own: Schema) -> str:
    return " ".join(str(own.get("description", "")).split())


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(headings: tuple[str, ...], rows: list[Any]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""
