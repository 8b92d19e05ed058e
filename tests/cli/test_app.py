"""The tree of commands."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from enmasse import __version__
from enmasse.cli import app

runner = CliRunner()


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    nested = getattr(command, "commands", None)
    if nested is None:
        return [path]
    return [found for name, child in nested.items() for found in commands(child, (*path, name))]


COMMANDS = commands(typer.main.get_command(app))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_an_example(words: tuple[str, ...]) -> None:
    answer = runner.invoke(app, [*words, "--help"], env={"TERMINAL_WIDTH": "200"})
    assert answer.exit_code == 0
    assert f"enmasse {' '.join(words)}" in answer.output


@pytest.mark.parametrize("words", [("send",), ("bench",), ("context", "set")], ids=" ".join)
def test_help_names_every_scheme_of_a_url(words: tuple[str, ...]) -> None:
    answer = runner.invoke(app, [*words, "--help"], env={"TERMINAL_WIDTH": "200"})
    assert {"amqps", "wss"} <= set(re.findall(r"\w+", answer.output))


def test_version_option_prints_the_version() -> None:
    answer = runner.invoke(app, ["--version"])
    assert (answer.exit_code, answer.output) == (0, f"enmasse {__version__}\n")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["create", "addresses"], "address"),
        (["create", "as"], "addressspace"),
        (["create", "messagingusers"], "user"),
    ],
)
def test_a_kind_may_be_named_in_singular_or_plural(words: list[str], kind: str) -> None:
    answer = runner.invoke(app, [*words, "--help"])
    assert answer.exit_code == 0
    assert f"enmasse {words[0]} {kind}" in answer.output.replace("root", "enmasse")


@pytest.mark.parametrize(
    "words",
    [["nothing"], ["get", "a", "-o", "x"], ["create", "address", "orders"], ["up", "--nothing"]],
)
def test_wrong_usage_is_exit_code_2(words: list[str]) -> None:
    assert runner.invoke(app, words).exit_code == 2


def test_refusal_prints_one_line_and_sets_the_exit_code(tmp_path: Any) -> None:
    answer = runner.invoke(app, ["get", "addresses", "--data", str(tmp_path)])
    assert answer.exit_code == 7
    assert answer.stderr.startswith(f"enmasse: no platform runs on data folder {tmp_path}")
    assert len(answer.stderr.splitlines()) == 1


GET = [
    *("connect.client", "commands.get", "output.formats", "output.tables"),
    *("resources.names", "resources.targets"),
]


@pytest.mark.parametrize("module", [f"enmasse.cli.{name}" for name in GET])
def test_get_command_does_not_import_the_resource_models(module: str) -> None:
    """Building the models took most of the time of `get`."""
    program = f"import sys; import {module}; print('enmasse.resources' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_command_imports_no_other_command_module() -> None:
    program = (
        "import sys; sys.argv = ['enmasse', 'get', '--help']\n"
        "from enmasse.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "built = [name for name in sys.modules if name.startswith('enmasse.cli.commands.')]\n"
        "assert built == ['enmasse.cli.commands.get'], built\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_get_runs_without_what_it_does_not_need(tmp_path: Path) -> None:
    """Imports are most of the CPU time of a command. The list holds that without a clock."""
    program = (
        "import sys\n"
        f"sys.argv = ['enmasse', 'get', 'addresses', '--data', {str(tmp_path)!r}]\n"
        "from enmasse.cli import main\n"
        "from enmasse.cli.connect import client\n"
        "listed = {'apiVersion': 'enmasse.io/v1beta1', 'items': []}\n"
        "client.Api._ask = lambda *arguments, **named: listed\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'yaml', 'rich', 'cryptography', 'structlog', 'starlette', 'uvicorn',\n"
        "    'prometheus_client', 'joserfc', 'enmasse._native', 'enmasse.resources',\n"
        "    'enmasse.plan', 'enmasse.client', 'enmasse.control', 'enmasse.api'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    (tmp_path / "token").write_text("secret")
    endpoints = {"http": {"host": "127.0.0.1", "port": 1}}
    (tmp_path / "endpoint.json").write_text(json.dumps({"pid": 1, "endpoints": endpoints}))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["[]"]), done.stderr


@pytest.mark.parametrize("module", ["enmasse.cli", "enmasse.cli.connect.client"])
def test_command_imports_no_platform_dependencies(module: str) -> None:
    program = (
        f"import sys; import {module};"
        "heavy = {'sqlalchemy', 'structlog', 'uvicorn', 'cryptography', 'starlette'};"
        "heavy.add('enmasse._native');"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_launcher_does_not_import_the_metrics_library() -> None:
    program = (
        "import sys; import enmasse.cli.serve.launcher;print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_settings_are_shown_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENMASSE_STORE", "postgresql://enmasse:wonderland@db/mq")
    for form in ("json", "table"):
        answer = runner.invoke(app, ["settings", "--output", form])
        assert "postgresql://enmasse:***@db/mq" in answer.stdout
        assert "wonderland" not in answer.stdout


def test_settings_are_shown_with_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENMASSE_AMQP_PORT", "off")
    answer = runner.invoke(app, ["settings", "--output", "json"])
    assert answer.exit_code == 0
    assert '"value": "off",\n    "origin": "environment"' in answer.stdout


def test_password_prompt_requires_a_terminal() -> None:
    answer = runner.invoke(app, ["create", "user", "alice"], env={"ENMASSE_PASSWORD": None})
    assert answer.exit_code == 2
    assert "no terminal to prompt on" in " ".join(answer.stderr.split())
    assert "Warning" not in answer.output
