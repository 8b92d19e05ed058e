"""The served kinds, each with every group and version in which its documents may be written."""

from typing import NamedTuple

from enmasse.resources import KINDS, AddressSpaceSchema, Event, Resource

READING = ("get", "list", "watch")
WRITING = ("create", "delete", "deletecollection", "patch", "update")


class Kind(NamedTuple):
    """One kind in one group and version."""

    group: str
    """Empty for the kinds of the Kubernetes core group."""

    version: str
    model: type[Resource]

    @property
    def name(self) -> str:
        """The kind, as in documents."""
        return self.model.__name__

    @property
    def group_version(self) -> str:
        """The `apiVersion` of its documents."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        """The base path of its group and version."""
        return f"/apis/{self.group_version}" if self.group else f"/api/{self.version}"

    @property
    def qualified(self) -> str:
        """The plural as messages name it: `addresses.enmasse.io`."""
        return f"{self.model.plural}.{self.group}" if self.group else self.model.plural

    @property
    def verbs(self) -> list[str]:
        """The supported verbs; events are read-only."""
        return sorted(READING if self.model.read_only else READING + WRITING)

    @property
    def has_status(self) -> bool:
        """Whether its status has a path of its own."""
        return "status" in self.model.model_fields

    @property
    def group_version_kind(self) -> dict[str, str]:
        """The kind in the form of OpenAPI."""
        return {"group": self.group, "kind": self.name, "version": self.version}


def _served(model: type[Resource], group_version: str) -> Kind:
    group, _, version = group_version.rpartition("/")
    return Kind(group, version, model)


_MODELS: tuple[type[Resource], ...] = (*KINDS.values(), AddressSpaceSchema, Event)

SERVED: tuple[Kind, ...] = tuple(
    _served(model, group_version) for model in _MODELS for group_version in model.api_versions
)
"""All kinds; the first version of a kind is the stored one."""


def of_group_version(group_version: str) -> list[Kind]:
    """Return the kinds of one group and version."""
    return [kind for kind in SERVED if kind.group_version == group_version]
