"""Kinds as people name them: kind, plural, short name, or a word of the field."""

from enmasse.base.errors import Code, Invalid
from enmasse.resources import KINDS, AddressSpaceSchema, Event, Resource, faults

_WORDS = {
    "space": "AddressSpace",
    "spaces": "AddressSpace",
    "user": "MessagingUser",
    "users": "MessagingUser",
}
_MODELS: dict[str, type[Resource]] = {
    **KINDS,
    AddressSpaceSchema.__name__: AddressSpaceSchema,
    Event.__name__: Event,
}


def _names() -> dict[str, type[Resource]]:
    names = {word: _MODELS[kind] for word, kind in _WORDS.items()}
    for kind, model in _MODELS.items():
        for name in (kind.lower(), model.plural, *model.short_names):
            names[name] = model
    return names


NAMES = _names()


def find(text: str) -> type[Resource] | None:
    """Return the kind that a word stands for, also with its group: `addresses.enmasse.io`."""
    word, _, group = text.lower().partition(".")
    model = NAMES.get(word)
    if model is None or (group and all(group != group_of(one) for one in model.api_versions)):
        return None
    return model


def named(text: str) -> type[Resource]:
    """Return the kind that a word stands for.

    Raises: Invalid if it stands for none; the message names the nearest.
    """
    if (model := find(text)) is None:
        plurals = sorted({one.plural for one in _MODELS.values()})
        close = faults.nearest(text.lower(), sorted(NAMES))
        hint = close if close.startswith("did") else f"there are {', '.join(plurals)}"
        message = f"the server doesn't have a resource type {text!r}; {hint}"
        raise Invalid(Code.KIND_UNKNOWN, message)
    return model


def group_of(api_version: str) -> str:
    """Return the group of an API version; empty for the kinds of Kubernetes' own."""
    return api_version.rpartition("/")[0]


def plural_of(model: type[Resource]) -> str:
    """Return a kind as a server's errors name it: `addresses.enmasse.io`."""
    group = group_of(model.api_versions[0])
    return f"{model.plural}{f'.{group}' if group else ''}"


def qualified(model: type[Resource], name: str) -> str:
    """Return a resource as `-o name` writes it: `address.enmasse.io/default.orders`."""
    group = group_of(model.api_versions[0])
    return f"{model.__name__.lower()}{f'.{group}' if group else ''}/{name}"
