"""Field descriptions, read from docstrings on demand."""

from pydantic import Field

from enmasse.resources.docstrings import docstrings
from enmasse.resources.model import Model
from enmasse.resources.schema import schema


class Base(Model):
    """A base."""

    kept: int
    """Of the base, and kept."""

    replaced: int
    """Of the base."""

    silent: int = 0


class Derived(Base):
    """A model with a base."""

    replaced: int
    """Of the model,
    over two lines."""

    described: int = Field(default=0, description="Said to the field.")
    """Not shown: the field says it itself."""


def test_the_docstring_of_a_field_is_its_description() -> None:
    assert dict(docstrings(Derived)) == {
        "kept": "Of the base, and kept.",
        "replaced": "Of the model,\nover two lines.",
        "described": "Said to the field.",
    }
    shown = schema(Derived)["properties"]
    assert shown["replaced"]["description"] == "Of the model, over two lines."
    assert "description" not in shown["silent"]
