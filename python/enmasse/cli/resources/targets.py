"""Targets of commands: kinds, names, files and selectors, with the syntax of kubectl.

The only place that parses `KIND NAME...`, `KIND,KIND`, `KIND/NAME...`, `-f`, `-R`, `-l`,
`--field-selector` and `--all`.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from enmasse.base.errors import Missing

if TYPE_CHECKING:
    from enmasse.base.kinds import Kind
    from enmasse.cli.connect.client import Api

Document = dict[str, Any]

NO_TARGET = (
    "You must provide one or more resources by argument or filename: KIND NAME, KIND/NAME,"
    " -f FILE, or KIND with --all or -l LABELS"
)


class Named(NamedTuple):
    """A kind and names; no names mean all of the kind."""

    model: "Kind"
    names: tuple[str, ...]


class Scope(NamedTuple):
    """Scope and selectors."""

    namespace: str | None
    """None: all."""

    space: str | None = None
    """None: any."""

    selector: str | None = None
    fields: str | None = None

    @property
    def selects(self) -> bool:
        """Whether it has label or field selectors."""
        return bool(self.selector or self.fields)

    @property
    def empty(self) -> str:
        """The message if nothing is found."""
        space = f"address space {self.space!r}" if self.space else ""
        namespace = f"namespace {self.namespace!r}" if self.namespace else ""
        where = " of ".join(filter(None, [space, namespace]))
        return f"no resources found{f' in {where}' if where else ''}"


class Targets(NamedTuple):
    """All targets of a command line."""

    words: Sequence[str]
    scope: Scope
    files: Sequence[str] = ()
    recursive: bool = False
    every: bool = False
    """Whether a kind without names means all of the kind."""


def named(words: Sequence[str]) -> list[Named]:
    """Parse `KIND[,KIND] [NAME...]` or `KIND/NAME...`.

    Arguments after a kind are names, also with slashes, which addresses may have.

    Raises: Invalid for an unknown kind; BadParameter for any other form.
    """
    from enmasse.cli.resources import kinds

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
    """Return the resources of a kind in the selected space.

    Raises: BadParameter for a name together with a selector.
    """
    from enmasse.cli.resources.names import is_in_space

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
    return [one for one in items if space is None or is_in_space(model, one, space)]


def found(api: "Api", targets: Targets, *, ignore_missing: bool = False) -> list[Document]:
    """Return the targeted resources in the order of the arguments.

    Raises: Missing if one does not exist, unless ignored; Invalid for an unknown kind or an
        unreadable file; BadParameter for missing or conflicting arguments.
    """
    if targets.files:
        if targets.words or targets.every or targets.scope.selects:
            raise typer.BadParameter(
                "-f cannot be combined with names, selectors or --all",
                param_hint="-f",
            )
        return _of_files(api, targets, ignore_missing=ignore_missing)
    if not (wanted := named(targets.words)):
        raise typer.BadParameter(NO_TARGET, param_hint="KIND")
    items: list[Document] = []
    for one in wanted:
        if one.names and targets.every:
            raise typer.BadParameter(
                "name cannot be provided when --all is specified", param_hint="NAME"
            )
        if not one.names and not targets.every and not targets.scope.selects:
            raise typer.BadParameter(
                "resource(s) were provided, but no name was specified; name them, or add --all",
                param_hint="NAME",
            )
        if one.names and not targets.scope.selects:
            items += _by_name(api, one, targets.scope, ignore_missing=ignore_missing)
        else:
            items += listed(api, one, targets.scope)
    return items


def only(api: "Api", words: Sequence[str], scope: Scope) -> Document:
    """Return the single targeted resource.

    Raises: as `found`; BadParameter if there are several.
    """
    items = found(api, Targets(words, scope))
    if len(items) != 1:
        raise typer.BadParameter("name one resource", param_hint="NAME")
    return items[0]


_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(text: str, option: str = "--timeout") -> float:
    """Parse a duration such as `1m30s`; a plain number is seconds.

    Raises: BadParameter if it is malformed.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise typer.BadParameter(
            f"invalid duration {text!r}: write 30s, 1m30s or 30", param_hint=option
        )
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _by_name(api: "Api", named: Named, scope: Scope, *, ignore_missing: bool) -> "list[Document]":
    from enmasse.cli.resources.names import fetch_by_name

    items = []
    for name in named.names:
        try:
            items.append(fetch_by_name(api, named.model, name, scope.space or "", scope.namespace))
        except Missing:
            if not ignore_missing:
                raise
    return items


def _of_files(api: "Api", targets: Targets, *, ignore_missing: bool) -> list[Document]:
    from enmasse.cli.resources.files import load_files
    from enmasse.resources import in_order

    items = []
    for one in in_order(load_files(targets.files, recursive=targets.recursive)):
        try:
            items.append(api.get(type(one), one.metadata.namespace, one.metadata.name))
        except Missing:
            if not ignore_missing:
                raise
    return items
