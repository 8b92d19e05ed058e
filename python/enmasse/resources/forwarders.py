"""Forwarders: transfer between a queue or subscription and an address of a connector.

The fields and rules are those of the original. Forwarders are not implemented, which a condition of
the address reports.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from enmasse.base.errors import Fault
from enmasse.resources.model import Model

FORWARDERS_MAX = 50
"""Maximum forwarders of one address."""

_NAME = re.compile(r"[a-zA-Z0-9]+")


def _forwarder_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"invalid forwarder name {value!r}: use letters and digits only")
    return value


class Forwarder(Model):
    """A transfer of messages to or from a remote server."""

    name: Annotated[str, AfterValidator(_forwarder_name)]
    """Letters and digits."""

    remote_address: Annotated[str, Field(min_length=1, max_length=1024)]
    """`CONNECTOR/ADDRESS`: an address of one of the connectors of the space."""

    direction: Literal["in", "out"]
    """`in`: from the remote address; `out`: to the remote address."""

    priority: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Priority of its consumer, with direction out only."""

    @property
    def connector(self) -> str:
        """The name of the connector in the remote address."""
        return self.remote_address.partition("/")[0]


class ForwarderStatus(Model):
    """Readiness of a forwarder."""

    name: str
    is_ready: bool = False
    messages: tuple[str, ...] = ()


def faults_of(forwarders: Iterable[Forwarder], address_type: str) -> Iterable[Fault]:
    """Yield errors of combinations of forwarders of an address."""
    names: set[str] = set()
    for place, one in enumerate(forwarders):
        path = f"spec.forwarders[{place}]"
        if one.name in names:
            yield Fault(f"{path}.name", f"{one.name!r} is already used by another forwarder")
        names.add(one.name)
        if one.direction == "in" and address_type == "subscription":
            yield Fault(f"{path}.direction", "must be out for a subscription")
        if one.direction == "in" and one.priority is not None:
            yield Fault(f"{path}.priority", "is supported by direction out only; remove it")


def unconnected(forwarders: Iterable[Forwarder], connectors: Iterable[str]) -> Iterable[Fault]:
    """Yield errors of forwarders whose connector does not exist."""
    known = list(connectors)
    for place, one in enumerate(forwarders):
        if not known:
            problem = "the address space has no connectors; declare one in its spec.connectors"
        elif one.connector not in known or "/" not in one.remote_address:
            there = ", ".join(known)
            problem = (
                f"{one.remote_address!r} does not begin with a connector name"
                f" and `/`; connectors: {there}"
            )
        else:
            continue
        yield Fault(f"spec.forwarders[{place}].remoteAddress", problem)
