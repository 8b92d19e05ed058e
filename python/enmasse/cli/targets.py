"""What commands are about: kinds, names, files and selectors, as kubectl takes them.

The one place that reads `KIND NAME...`, `KIND,KIND`, `KIND/NAME...`, `-f`, `-R`, `-l`,
`--field-selector` and `--all`.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from enmasse.base.errors import Missing

if TYPE_CHECKING:
    from enmasse.base.kinds import Kind
    from enmasse.cli.client import Api

Document = dict[str, Any]

NOTHING_SAID = (
    "You must provide one or more resources by argument or filename: KIND NAME, KIND/NAME,"
    " -f FILE, or KIND with --all or -l LABELS"
)


class Named(NamedTuple):
    """A kind and the names of some of it; none is all of it."""

    model: "Kind"
    names: tuple[str, ...]


class Scope(NamedTuple):
    """Where to look, and what for."""

    namespace: str | None
    """None: all."""

    space: str | None = None
    """None: any."""

    selector: str | None = None
    fields: str | None = None

    @property
    def selects(self) -> bool:
        """Whether it picks by labels or fields."""
        return bool(self.selector or self.fields)

    @property
    def empty(self) -> str:
        """What is told where there is nothing."""
        space = f"address space {self.space!r}" if self.space else ""
        namespace = f"namespace {self.namespace!r}" if self.namespace else ""
        where = " of ".join(filter(None, [space, namespace]))
        return f"no resources found{f' in {where}' if where else ''}"


class Meant(NamedTuple):
    """All that a command line says of what it is about."""

    words: Sequence[str]
    scope: Scope
    files: Sequence[str] = ()
    recursive: bool = False
    every: bool = False
    """Whether all of a kind are meant where no name is given."""


def named(words: Sequence[str]) -> list[Named]:
    """Return the kinds and names that words stand for: `KIND[,KIND] [NAME...]` or `KIND/NAME...`.

    What comes after a kind is a name, also with a slash in it: addresses have them.

    Raises: Invalid for a word that is no kind; BadParameter for what is neither form.
    """
    from enmasse.cli import kinds

    if not words:
        return []
    if "/" not in words[0]:
        models = dict.fromkeys(kinds.named(word) for word in words[0].split(",") if word)
        return [Named(model, tuple(words[1:])) for model in models]
    found = []
    for word in words:
        kind, slash, name = word.partition("/")
        if not slash:
            raise typer.BadParameter(
                "there is no need to specify a resource type as a separate argument when passing"
                " arguments in resource/name form",
                param_hint=repr(word),
            )
        if not kind or not name:
            raise typer.BadParameter(
                "arguments in resource/name form must have a single resource and name",
                param_hint=repr(word),
            )
        found.append(Named(kinds.named(kind), (name,)))
    return found


def listed(api: "Api", named: Named, scope: Scope) -> list[Document]:
    """Return what there is of a kind, in the space that is meant.

    Raises: BadParameter for a name beside a selector.
    """
    from enmasse.cli.names import in_its_space

    if named.names and scope.selects:
        raise typer.BadParameter(
            "name cannot be provided when a selector is specified", param_hint="NAME"
        )
    model = named.model
    items = api.list(
        model.plural,
        scope.namespace,
        statistics=model.plural == "addresses",
        selector=scope.selector,
        fields=scope.fields,
    )["items"]
    space = scope.space
    return [one for one in items if space is None or in_its_space(model, one, space)]


def found(api: "Api", meant: Meant, *, ignore_missing: bool = False) -> list[Document]:
    """Return the resources that are meant, in the order in which they are named.

    Raises: Missing for one that is not there, unless that is to be ignored; Invalid for a word that
        is no kind or a file that cannot be read; BadParameter if nothing or too much is said.
    """
    if meant.files:
        if meant.words or meant.every or meant.scope.selects:
            raise typer.BadParameter(
                "when a file is given, resources are not named, selected or all meant too",
                param_hint="-f",
            )
        return _of_files(api, meant, ignore_missing=ignore_missing)
    if not (wanted := named(meant.words)):
        raise typer.BadParameter(NOTHING_SAID, param_hint="KIND")
    items: list[Document] = []
    for one in wanted:
        if one.names and meant.every:
            raise typer.BadParameter(
                "name cannot be provided when --all is specified", param_hint="NAME"
            )
        if not one.names and not meant.every and not meant.scope.selects:
            raise typer.BadParameter(
                "resource(s) were provided, but no name was specified; name them, or say --all",
                param_hint="NAME",
            )
        if one.names and not meant.scope.selects:
            items += _by_name(api, one, meant.scope, ignore_missing=ignore_missing)
        else:
            items += listed(api, one, meant.scope)
    return items


def only(api: "Api", words: Sequence[str], scope: Scope) -> Document:
    """Return the one resource that words name.

    Raises: as `found`; BadParameter if they name several.
    """
    items = found(api, Meant(words, scope))
    if len(items) != 1:
        raise typer.BadParameter("name one resource", param_hint="NAME")
    return items[0]


_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str, option: str = "--timeout") -> float:
    """Return a duration such as `1m30s`; a number alone is seconds.

    Raises: BadParameter if it is none.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise typer.BadParameter(
            f"invalid duration {text!r}: write 30s, 1m30s or 30", param_hint=option
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _by_name(api: "Api", named: Named, scope: Scope, *, ignore_missing: bool) -> "list[Document]":
    from enmasse.cli.names import looked_up

    items = []
    for name in named.names:
        try:
            items.append(looked_up(api, named.model, name, scope.space or "", scope.namespace))
        except Missing:
            if not ignore_missing:
                raise
    return items


def _of_files(api: "Api", meant: Meant, *, ignore_missing: bool) -> list[Document]:
    from enmasse.cli.files import load_files
    from enmasse.resources import in_order

    items = []
    for one in in_order(load_files(meant.files, recursive=meant.recursive)):
        try:
            items.append(api.get(type(one), one.metadata.namespace, one.metadata.name))
        except Missing:
            if not ignore_missing:
                raise
    return items
