"""Output formats, as selected by `--output`."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path as File
from typing import Any, NamedTuple

import typer

from enmasse.cli.output.jsonpath import Path, Template, path, template, text_of
from enmasse.cli.output.printing import columns
from enmasse.cli.resources import kinds

Document = dict[str, Any]

NOTHING = "<none>"
"""An empty custom column, as in kubectl."""


class Listing(StrEnum):
    """How resources are printed."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"
    JSONPATH_FILE = "jsonpath-file"
    COLUMNS = "custom-columns"


class Form(NamedTuple):
    """A format with its argument."""

    listing: Listing
    template: Template = Template(())
    headings: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a table specific to the kind."""
        return self.listing in (Listing.TABLE, Listing.WIDE)

    @property
    def wide(self) -> bool:
        """Whether it is the wide table."""
        return self.listing is Listing.WIDE

    def text(self, document: Document, *, headings: bool = True) -> str:
        """Return a resource or a list as text, including a final newline if the format has one."""
        if self.listing is Listing.JSON:
            return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        if self.listing is Listing.YAML:
            import yaml

            yaml_text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            return yaml_text
        if self.listing is Listing.COLUMNS:
            return self._columns(items_of(document), headings=headings)
        if self.listing is Listing.NAME:
            return "".join(f"{_name(one)}\n" for one in items_of(document))
        return self.template.text(document)

    def _columns(self, items: Sequence[Document], *, headings: bool) -> str:
        rows = [
            [",".join(map(text_of, one.values(item))) or NOTHING for one in self.paths]
            for item in items
        ]
        lines = columns(self.headings, rows).splitlines()
        return "".join(f"{line}\n" for line in lines[0 if headings else 1 :])


def form(text: str) -> Form:
    """Return the format of `--output`.

    Raises: BadParameter if it is unknown or its template is malformed.
    """
    word, has_value, value = text.partition("=")
    # Every mistake ends in one message, worded as kubectl's.
    try:
        listing = Listing(word)
        if bool(has_value) != (listing in _WITH_VALUE):
            raise ValueError(f"{word} is written {word}{_WITH_VALUE.get(listing, '')}")
        if listing is Listing.JSONPATH_FILE:
            return Form(Listing.JSONPATH, template(File(value).read_text().rstrip("\n")))
        if listing is Listing.JSONPATH:
            return Form(listing, template(value))
        if listing is Listing.COLUMNS:
            pairs = [one.partition(":") for one in value.split(",")]
            if not all(heading and where for heading, _, where in pairs):
                raise ValueError(f"{value!r} is not HEADING:PATH,...")
            named = tuple(heading for heading, _, _ in pairs)
            return Form(listing, headings=named, paths=tuple(path(one[2]) for one in pairs))
        return Form(listing)
    except (ValueError, OSError) as error:
        allowed = ", ".join(Listing)
        reason = f"allowed formats are: {allowed}" if word not in list(Listing) else str(error)
        raise typer.BadParameter(
            f"unable to match a printer suitable for the output format {text!r}, {reason}",
            param_hint="--output",
        ) from None


_WITH_VALUE = {
    Listing.JSONPATH: "=TEMPLATE",
    Listing.JSONPATH_FILE: "=FILE",
    Listing.COLUMNS: "=HEADING:PATH,...",
}


def items_of(document: Document) -> Sequence[Document]:
    """Return the resources of a list, or a single one."""
    items: Sequence[Document] = document.get("items", [document])
    return items


def list_of(items: Sequence[Document]) -> Document:
    """Return resources of any kinds as one list."""
    metadata = {"resourceVersion": ""}
    return {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": [*items]}


def _name(one: Document) -> str:
    return kinds.qualified(kinds.named(one["kind"]), one["metadata"]["name"])
