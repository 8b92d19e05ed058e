"""Descriptions of model fields, from their docstrings.

pydantic can read them for every class at its creation, but that takes half of the import time of
the models. They are needed only when a schema is shown or a document is refused.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from pydantic import BaseModel


@cache
def docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstring of each field of a model, by name; a subclass may replace those of its
    base.

    A description given to `Field` takes precedence.
    """
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _of_module(base.__module__).get(base.__qualname__, {})
    given = {name: field.description for name, field in model.model_fields.items()}
    found |= {name: text for name, text in given.items() if text is not None}
    return MappingProxyType({name: text for name, text in found.items() if name in given})


@cache
def _of_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                found[name] = inspect.cleandoc(docstring)
    return found
