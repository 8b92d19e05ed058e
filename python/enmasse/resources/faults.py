"""From the validator's findings to faults that name the field, the error and the remedy."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from enmasse.base.errors import Fault
from enmasse.base.wording import worded
from enmasse.resources.docstrings import docstrings

FAULTS_MAX = 100
"""Faults reported for one document; of further ones only the number."""

UNKNOWN = "extra_forbidden"
"""What the validator calls a field that the model does not have."""

_Found = TypeVar("_Found")


def of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Return the first faults of a document that `model` refused, in the order of its fields."""
    found = error.errors(include_url=False)
    # Of a list whose items are refused the validator also says that too few are left.
    inner = {detail["loc"][:end] for detail in found for end in range(len(detail["loc"]))}
    return said(
        [
            detail
            for detail in found
            if not (detail["type"] == "too_short" and detail["loc"] in inner)
        ],
        model,
    )


def said(details: Sequence[Mapping[str, Any]], model: type[BaseModel]) -> list[Fault]:
    """Return the faults for the first findings of the validator."""
    return first(details, lambda one: Fault(path(one["loc"]), _message(one, model)))


def first(found: Sequence[_Found], fault: Callable[[_Found], Fault]) -> list[Fault]:
    """Return the fault of each of the first FAULTS_MAX, and one that says how many more there are.

    Writing one takes a comparison with all known names, so it is not done for the others.
    """
    faults = [fault(one) for one in found[:FAULTS_MAX]]
    more = len(found) - len(faults)
    return [*faults, Fault("", f"and {more:,} more")] if more else faults


def nearest(name: str, known: Sequence[str]) -> str:
    """Return ` did you mean ...` for the most similar known name, else what is known."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def path(location: Sequence[int | str]) -> str:
    """Return the path of a field as faults name it."""
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
