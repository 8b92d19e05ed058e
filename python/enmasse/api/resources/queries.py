"""Query parameters of resource paths."""

from dataclasses import dataclass
from typing import Self

from starlette.datastructures import QueryParams

from enmasse.api.resources.selectors import Selector, contains, selector
from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import Resource

VALIDATIONS = ("Warn", "Strict", "Ignore")
MATCHES = ("", "Exact", "NotOlderThan")
INCLUDED = ("Metadata", "None", "Object")
MANAGER_LENGTH_MAX = 128
CONTAINS_LENGTH_MAX = 1024


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Parameters of a list or watch."""

    selects: Selector
    selectors: tuple[str, str]
    """The label and field selectors as written."""

    limit: int
    """Page size; 0 means unlimited."""

    continue_: str
    resource_version: int | None
    match: str
    """Match rule of `resource_version`: Exact, NotOlderThan, or empty."""

    watch: bool
    bookmarks: bool
    initial_events: bool | None
    """Whether a watch begins with the present state and marks its end; None: not given."""

    timeout_s: int | None
    include: str
    """The part of a resource in its table row."""

    sort_by: str = ""
    """The sort key, with a leading `-` for descending order; empty: by name."""

    contains: str = ""
    """A text that the name or address must contain."""

    offset: int = 0
    """Rows to skip; with `sort_by` only."""

    @classmethod
    def of(cls, parameters: QueryParams, model: type[Resource]) -> Self:
        """Parse the parameters.

        Raises: Invalid if one is malformed, or two exclude each other.
        """
        labels, fields = (parameters.get(f"{name}Selector", "") for name in ("label", "field"))
        initial = parameters.get("sendInitialEvents")
        text = parameters.get("contains", "")
        by_selectors = selector(model, labels, fields)
        query = cls(
            selects=(lambda one: by_selectors(one) and contains(text, one))
            if text
            else by_selectors,
            selectors=(labels, fields),
            limit=number(parameters, "limit") or 0,
            continue_=parameters.get("continue", ""),
            # Clients send an empty value for any version.
            resource_version=number(parameters, "resourceVersion")
            if parameters.get("resourceVersion")
            else None,
            match=_one_of(parameters, "resourceVersionMatch", MATCHES),
            watch=flag(parameters, "watch"),
            bookmarks=flag(parameters, "allowWatchBookmarks"),
            initial_events=None if initial is None else flag(parameters, "sendInitialEvents"),
            timeout_s=number(parameters, "timeoutSeconds"),
            include=_one_of(parameters, "includeObject", INCLUDED),
            sort_by=parameters.get("sortBy", ""),
            contains=text,
            offset=number(parameters, "offset") or 0,
        )
        query._check()
        return query

    def _check(self) -> None:
        if len(self.contains) > CONTAINS_LENGTH_MAX:
            raise _forbidden("contains", f"must have at most {CONTAINS_LENGTH_MAX} characters")
        if self.watch:
            if self.sort_by:
                raise _forbidden("sortBy", "is not for a watch")
            if self.initial_events is not None and self.match != "NotOlderThan":
                raise _forbidden(
                    "resourceVersionMatch", "must be NotOlderThan with sendInitialEvents"
                )
            if self.initial_events is None and self.match:
                raise _forbidden("resourceVersionMatch", "needs sendInitialEvents on a watch")
            return
        if self.initial_events is not None:
            raise _forbidden("sendInitialEvents", "is for a watch only")
        if self.offset and (not self.sort_by or self.continue_):
            raise _forbidden("offset", "needs sortBy, and does not go together with continue")
        if self.match and self.resource_version is None:
            raise _forbidden("resourceVersionMatch", "needs resourceVersion")
        if self.match == "Exact" and not self.resource_version:
            raise _forbidden("resourceVersionMatch", "Exact needs a resourceVersion above 0")
        if self.continue_ and self.resource_version:
            raise _forbidden("resourceVersion", "does not go together with continue")


@dataclass(frozen=True, slots=True)
class WriteQuery:
    """Parameters of a write."""

    dry_run: bool
    validation: str
    """Handling of unknown fields: Strict, Warn or Ignore."""

    manager: str
    """The field manager."""

    force: bool
    """Take over fields of other managers."""

    @classmethod
    def of(cls, parameters: QueryParams, user_agent: str) -> Self:
        """Parse the parameters.

        Raises: Invalid if one is malformed.
        """
        dry_run = parameters.getlist("dryRun")
        if any(one != "All" for one in dry_run):
            raise _forbidden("dryRun", "can only be All")
        manager = parameters.get("fieldManager", "")
        if len(manager) > MANAGER_LENGTH_MAX or not manager.isprintable():
            raise _forbidden(
                "fieldManager", f"must have at most {MANAGER_LENGTH_MAX} printable characters"
            )
        return cls(
            dry_run=bool(dry_run),
            validation=_one_of(parameters, "fieldValidation", VALIDATIONS),
            manager=manager or user_agent.partition("/")[0][:MANAGER_LENGTH_MAX] or "unknown",
            force=flag(parameters, "force"),
        )


def flag(parameters: QueryParams, name: str) -> bool:
    """Return a boolean parameter; default false.

    Raises: Invalid if it is malformed.
    """
    text = parameters.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise _forbidden(name, f"must be true or false, not {text!r}")
    return text in ("true", "1")


def number(parameters: QueryParams, name: str) -> int | None:
    """Return an integer parameter; None if absent.

    Raises: Invalid if it is malformed.
    """
    text = parameters.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise _unreadable(name, f"must be a whole number, not {text!r}")
    return int(text)


def _one_of(parameters: QueryParams, name: str, known: tuple[str, ...]) -> str:
    value = parameters.get(name) or known[0]
    if value not in known:
        raise _forbidden(name, f"must be one of {', '.join(one for one in known if one)}")
    return value


def _unreadable(name: str, problem: str) -> Invalid:
    fault = Fault(name, problem)
    return Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])


def _forbidden(name: str, problem: str) -> Invalid:
    fault = Fault(name, problem)
    return Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
