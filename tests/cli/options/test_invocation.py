"""The options that commands share: declared once, with one order and one set of defaults."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from enmasse.cli.options import invocation
from enmasse.cli.options.invocation import (
    Group,
    Listing,
    Messaging,
    Options,
    SpacedReporting,
    with_options,
)
from enmasse.cli.options.shared import Output
from enmasse.cli.tree import COMMANDS, Commands


def shown(count: Annotated[int, typer.Option()] = 1, *, call: SpacedReporting) -> None:
    """Print the options of the command."""
    print(count, call.space, call.namespace, call.output, call.data, call.server, call.token_file)


def test_command_gets_the_options_of_its_call_type() -> None:
    names = list(inspect.signature(with_options(shown)).parameters)
    shared = ["space", "namespace", "output", "data", "server", "token_file"]
    assert names == ["count", *shared]


def test_call_fields_have_the_given_values_or_their_defaults() -> None:
    app = Group()
    app.command()(shown)
    told = CliRunner().invoke(app, ["--count", "2", "-s", "shop", "-o", "json", "--data", "folder"])
    assert told.exit_code == 0, told.output
    assert told.stdout.split() == ["2", "shop", "default", "json", "folder", "None", "None"]


def test_group_may_have_its_own_options() -> None:
    app = Group()

    @app.callback(invoke_without_command=True)
    def whole(*, call: Listing) -> None:
        print(call.output, call.space)

    told = CliRunner().invoke(app, ["-o", "name"])
    assert told.stdout.split() == ["name", "None"]


def test_command_without_shared_options_is_unchanged() -> None:
    def plain(count: int = 1) -> int:
        return count + 1

    assert list(inspect.signature(with_options(plain)).parameters) == ["count"]
    assert with_options(plain)(count=2) == 3


def test_messaging_options_become_a_connection() -> None:
    call = Messaging(url="amqp://127.0.0.1:1", ca=Path("ca.crt"), space="shop")
    server = call.connection()
    assert (server.url, server.ca, server.space, server.mechanism) == (
        "amqp://127.0.0.1:1",
        Path("ca.crt"),
        "shop",
        None,
    )


KINDS = [one for one in vars(invocation).values() if inspect.isclass(one)]


@pytest.mark.parametrize("kind", [one for one in KINDS if issubclass(one, Options)])
def test_every_call_field_is_an_ordered_option_with_a_default(kind: type[Options]) -> None:
    made = kind()
    assert getattr(made, "output", Output.TABLE) in (Output.TABLE, "table")
    assert {one.name for one in fields(kind)} <= set(invocation._ORDER)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_exposes_the_call_object_as_an_option(name: str) -> None:
    command = Commands()[name]
    below = [command, *getattr(command, "commands", {}).values()]
    assert all(option.name != "call" for one in below for option in one.params)
