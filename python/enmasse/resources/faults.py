"""Converts validation errors to faults with the field, the error and the remedy."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from enmasse.base.errors import Fault
from enmasse.base.wording import worded
from enmasse.resources.docstrings import docstrings

FAULTS_MAX = 100
"""Maximum faults reported for one document; the rest is counted."""

UNKNOWN = "extra_forbidden"
"""The validator's error type of an unknown field."""

_Found = TypeVar("_Found")


def of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Return the first faults of a document that `model` refused, in order of its fields."""
    found = error.errors(include_url=False)
    # If items of a list are invalid, the validator also reports that the list is too short.
    inner = {detail["loc"][:end] for detail in found for end in range(len(detail["loc"]))}
    return faults_of(
        [
            detail
            for detail in found
            if not (detail["type"] == "too_short" and detail["loc"] in inner)
        ],
        model,
    )


def faults_of(details: Sequence[Mapping[str, Any]], model: type[BaseModel]) -> list[Fault]:
    """Return faults for the first validation errors."""
    return first(details, lambda one: Fault(path(one["loc"]), _message(one, model)))


def first(found: Sequence[_Found], fault: Callable[[_Found], Fault]) -> list[Fault]:
    """Return faults of the first FAULTS_MAX errors, and one fault with the number of the others.

    Only these, because each message takes a comparison with all known names.
    """
    faults = [fault(one) for one in found[:FAULTS_MAX]]
    more = len(found) - len(faults)
    return [*faults, Fault("", f"and {more:,} more")] if more else faults


def nearest(name: str, known: Sequence[str]) -> str:
    """Return ` did you mean ...` for the most similar known name, else all known names."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def path(location: Sequence[int | str]) -> str:
    """Return the path of a field in the form of faults."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _message(detail: Mapping[str, Any], model: type[BaseModel]) -> str:
    location: Sequence[int | str] = detail["loc"]
    kind: str = detail["type"]
    if kind == UNKNOWN:
        known = [
            _alias(parent, name) for parent in _at(model, location) for name in _fields(parent)
        ]
        return f"unknown field; {nearest(str(location[-1]), known)}"
    if kind == "missing":
        return f"is required{_meaning(model, location)}"
    return worded(detail)


def _fields(model: type[BaseModel]) -> Sequence[str]:
    return list(model.model_fields)


def _alias(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _meaning(model: type[BaseModel], location: Sequence[int | str]) -> str:
    for parent in _at(model, location):
        for name, text in docstrings(parent).items():
            if _alias(parent, name) == location[-1]:
                return f": {text.splitlines()[0].rstrip('.')}"
    return ""


def _at(model: type[BaseModel], location: Sequence[int | str]) -> list[type[BaseModel]]:
    """Return the models that the parent of `location` may be an instance of."""
    models = [model]
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        models = [
            inner
            for parent in models
            for name, field in parent.model_fields.items()
            if _alias(parent, name) == part
            for inner in _models_in(field.annotation)
        ]
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
