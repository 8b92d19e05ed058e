"""The context of a command: its platform, the part of the platform, and the output format.

A command takes one parameter of a type below, and `with_options` replaces it by the options of the
type's fields. A command thus declares what it needs, and options have the same names, defaults and
order everywhere.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from enmasse.cli.options.shared import (
    AnyNamespace,
    AnySpace,
    Ca,
    Data,
    InSpace,
    ListingForm,
    Mechanism,
    MqttUrl,
    Namespace,
    Output,
    OutputForm,
    ServerUrl,
    Space,
    TokenFile,
    Url,
)

if TYPE_CHECKING:
    from enmasse.cli.connect.client import Api
    from enmasse.cli.connect.servers import Server
    from enmasse.cli.messaging.mqtt import Broker

_ORDER = (
    *("space", "namespace", "url", "ca", "mechanism"),
    *("output", "data", "server", "token_file"),
)
"""Order of the options in the help: scope, behaviour, and last the platform."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options shared by several commands."""


@dataclass(frozen=True, kw_only=True)
class Invocation(Options):
    """The platform that a command is about."""

    data: Data = None
    server: ServerUrl = None
    token_file: TokenFile = None

    def api(self) -> "Api":
        """Return its HTTP API. Raises: as `Api.find`."""
        # Imported here: help needs the commands, but not the client.
        from enmasse.cli.connect.client import Api

        return Api.find(self.data, self.server, self.token_file)

    def local_folder(self) -> Path | None:
        """Return the data folder of the platform; None for one of another machine."""
        from enmasse.base.data_dir import default_data_dir
        from enmasse.cli.connect import contexts

        if self.server is not None:
            return None
        context = contexts.chosen() if self.data is None else None
        if context is not None and context.server is not None:
            return None
        said = self.data or (Path(context.data) if context and context.data else None)
        return said or default_data_dir()


@dataclass(frozen=True, kw_only=True)
class Reporting(Invocation):
    """A command that prints a document or a table."""

    output: OutputForm = Output.TABLE


@dataclass(frozen=True, kw_only=True)
class Namespaced(Invocation):
    """A command about one namespace."""

    namespace: Namespace = "default"


@dataclass(frozen=True, kw_only=True)
class NamespacedReporting(Namespaced, Reporting):
    """A command about one namespace that prints a document or a table."""


@dataclass(frozen=True, kw_only=True)
class Spaced(Namespaced):
    """A command about one address space."""

    space: Space = "default"


@dataclass(frozen=True, kw_only=True)
class SpacedReporting(Spaced, Reporting):
    """A command about one address space that prints a document or a table."""


@dataclass(frozen=True, kw_only=True)
class Anywhere(Invocation):
    """A command about all address spaces and namespaces, unless one is named."""

    space: AnySpace = None
    namespace: AnyNamespace = None


@dataclass(frozen=True, kw_only=True)
class AnywhereReporting(Anywhere, Reporting):
    """A command about all address spaces that prints a document or a table."""


@dataclass(frozen=True, kw_only=True)
class Listing(Anywhere):
    """A command that lists resources in the formats of kubectl."""

    output: ListingForm = "table"


@dataclass(frozen=True, kw_only=True)
class Messaging(Options):
    """A command that exchanges messages with an AMQP 1.0 server."""

    space: InSpace = None
    url: Url = None
    ca: Ca = None
    mechanism: Mechanism = None
    data: Data = None

    def connection(self) -> "Server":
        """Return the messaging server."""
        from enmasse.cli.connect.servers import Server

        return Server(self.url, self.data, self.ca, self.mechanism, self.space)


@dataclass(frozen=True, kw_only=True)
class MessagingReporting(Messaging):
    """A command that exchanges messages, and prints a document or a table."""

    output: OutputForm = Output.TABLE


@dataclass(frozen=True, kw_only=True)
class Devices(Options):
    """A command that exchanges messages with an MQTT server, as a device does."""

    space: InSpace = None
    url: MqttUrl = None
    ca: Ca = None
    data: Data = None

    def broker(self) -> "Broker":
        """Return the MQTT server."""
        # Imported here: help needs the commands, but not the client.
        from enmasse.cli.messaging.mqtt import Broker

        return Broker(self.url, self.data, self.ca, self.space)


@dataclass(frozen=True, kw_only=True)
class DevicesReporting(Devices):
    """A command that publishes messages, and prints a document or a table."""

    output: OutputForm = Output.TABLE


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose parameters of type Options are replaced by the options of their
    fields. Typer reads the options from the signature.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: of for name, of in hints.items() if _is_options(of)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        group = groups.get(name)
        own = parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints.get(name))
        parameters += _parameters(group) if group else [own]

    @wraps(command)
    def run(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in fields(group)})
        return command(**values)

    annotations = {one.name: one.annotation for one in parameters}
    run.__annotations__ = annotations | {"return": hints.get("return")}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _is_options(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Options)


def _parameters(group: type[Options]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    ordered = sorted(fields(group), key=lambda one: _ORDER.index(one.name))
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name],
        )
        for one in ordered
    ]


class Group(typer.Typer):
    """A group of commands, whose parameters of type Options become options."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a command, as typer.Typer does."""
        return _extended(super().command(*arguments, **options))

    def callback(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Register the callback of the group, as typer.Typer does."""
        return _extended(super().callback(*arguments, **options))


def _extended(register: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that registers a command with its options and returns it unchanged."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        register(with_options(command))
        return command

    return add
