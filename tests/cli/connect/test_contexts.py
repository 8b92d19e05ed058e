"""Contexts: named platforms, and the selection of one."""

import base64
import json
import stat
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from cli_platform import Obeying
from enmasse.base.errors import Denied, Invalid, Missing, Unavailable
from enmasse.cli import app
from enmasse.cli.connect import contexts
from enmasse.cli.connect.client import Api
from enmasse.cli.connect.contexts import Context
from enmasse.cli.connect.servers import Server

runner = CliRunner()


def enmasse(*words: str, stdin: str | None = None) -> str:
    """Run one command that succeeds; return what it printed."""
    answer = runner.invoke(app, list(words), input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "own-token"
    file.write_text("secret\n")
    file.chmod(0o600)
    return file


def test_first_context_becomes_the_current_one(no_contexts: Path, token_file: Path) -> None:
    enmasse("context", "set", "shop", "--server", "http://a:1", "--token-file", str(token_file))
    enmasse("context", "set", "here", "--data", "/data", "--namespace", "n", "--space", "s")
    shown = json.loads(enmasse("context", "list", "--output", "json"))
    assert shown["current"] == "shop"
    assert shown["contexts"]["here"] == {"data": "/data", "namespace": "n", "space": "s"}
    assert "context here is the current one" in enmasse("context", "use", "here")
    assert contexts.load().current == "here"
    enmasse("context", "delete", "here")
    assert contexts.load().current is None
    assert list(contexts.load().contexts) == ["shop"]
    assert [line.split()[:1] for line in enmasse("context", "list").splitlines()] == [
        ["NAME"],
        ["shop"],
    ]


def test_context_set_preserves_omitted_settings(token_file: Path) -> None:
    enmasse("context", "set", "shop", "--server", "http://a:1", "--token-file", str(token_file))
    enmasse("context", "set", "shop", "--space", "s")
    kept = contexts.load().named("shop")
    assert (kept.server, kept.space) == ("http://a:1", "s")


def test_context_files_are_readable_only_by_their_owner(no_contexts: Path) -> None:
    enmasse("context", "set", "shop", "--server", "https://a:1", "--token", "-", stdin="t0ken\n")
    assert mode(no_contexts) == 0o700
    assert {path.name: mode(path) for path in no_contexts.iterdir()} == {
        "config.yaml": 0o600,
        "shop.token": 0o600,
    }
    assert "t0ken" not in (no_contexts / "config.yaml").read_text()
    enmasse("context", "delete", "shop")
    assert [path.name for path in no_contexts.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "a b", "--data", "/d"], "at most 63 letters"),
        (["set", "a", "--server", "mq.example.com"], "begins with http"),
        (["set", "a", "--server", "http://b"], "needs --token-file"),
        (["set", "a", "--server", "http://b", "--token", "t"], "visible to other users"),
        (["set", "a", "--server", "http://b", "--token", "-", "--data", "/d"], "one of the two"),
    ],
)
def test_context_set_with_wrong_options_exits_2(words: list[str], says: str) -> None:
    answer = runner.invoke(app, ["context", *words], input="t")
    assert answer.exit_code == 2
    assert says in " ".join(answer.stderr.replace("│", " ").split())
    assert contexts.load().contexts == {}


def test_mistyped_context_name_gets_a_hint(token_file: Path) -> None:
    enmasse("context", "set", "shop", "--data", "/data")
    answer = runner.invoke(app, ["context", "use", "shpo"])
    assert answer.exit_code == 3
    assert "context 'shpo' not found; did you mean 'shop'?" in answer.stderr
    answer = runner.invoke(app, ["--context", "none", "get", "addresses"])
    assert (answer.exit_code, "context 'none' not found" in answer.stderr) == (3, True)


@pytest.mark.parametrize("text", ["contexts: [", "contexts: {a: {sever: x}}", "current: [1]"])
def test_broken_context_file_is_named_and_does_not_block_settings(
    no_contexts: Path, text: str
) -> None:
    no_contexts.mkdir(parents=True)
    (no_contexts / "config.yaml").write_text(text)
    with pytest.raises(Invalid, match="config.yaml"):
        contexts.load()
    assert "enmasse" in enmasse("settings")


def test_context_set_imports_a_kubeconfig(no_contexts: Path, tmp_path: Path) -> None:
    document = {
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://k:6443",
                    "certificate-authority-data": base64.b64encode(b"PEM").decode(),
                },
            }
        ],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "current-context": "x",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    enmasse("context", "set", "k", "--kubeconfig", str(file))
    taken = contexts.load().named("k")
    assert (taken.server, taken.namespace) == ("https://k:6443", "n")
    assert taken.ca is not None and Path(taken.ca).read_text() == "PEM\n"
    assert taken.token_file is not None and contexts.secret(Path(taken.token_file)) == "t0ken"
    document["users"] = [{"name": "u", "user": {"client-certificate": "c.pem"}}]
    file.write_text(yaml.safe_dump(document))
    answer = runner.invoke(app, ["context", "set", "k", "--kubeconfig", str(file)])
    assert (answer.exit_code, "does not use a token" in answer.stderr) == (1, True)
    file.write_text("[]")
    answer = runner.invoke(app, ["context", "set", "k", "--kubeconfig", str(file)])
    assert "not a kubeconfig with a current context" in answer.stderr


def test_secret_file_readable_by_others_is_refused(token_file: Path) -> None:
    assert contexts.secret(token_file) == "secret"
    token_file.chmod(0o640)
    with pytest.raises(Denied, match=f"chmod 600 {token_file}"):
        contexts.secret(token_file)
    with pytest.raises(Missing, match="cannot read"):
        contexts.secret(token_file.with_name("none"))


@pytest.mark.parametrize(
    ("url", "means"),
    [
        ("amqps://alice@mq:5671", "amqps://alice:p%40ss%2F@mq:5671"),
        ("amqps://alice:own@mq", "amqps://alice:own@mq"),
        ("amqps://mq", "amqps://mq"),
    ],
)
def test_messaging_url_gets_the_password_from_its_file(
    token_file: Path, url: str, means: str
) -> None:
    token_file.write_text("p@ss/\n")
    context = Context(url=url, password_file=str(token_file))
    assert contexts.messaging_url(context) == means


def test_commands_use_the_selected_context(shop: Obeying, tmp_path: Path) -> None:
    server = f"http://127.0.0.1:{shop.listener.getsockname()[1]}"
    shop.token.chmod(0o600)
    enmasse("context", "set", "shop", "--server", server, "--token-file", str(shop.token))
    enmasse("context", "set", "other", "--data", str(tmp_path / "nothing"))
    assert "orders" in enmasse("get", "addresses")
    assert runner.invoke(app, ["--context", "other", "get", "addresses"]).exit_code == 7
    answer = runner.invoke(app, ["get", "addresses"], env={"ENMASSE_CONTEXT": "other"})
    assert answer.exit_code == 7
    # An explicit option overrides the context.
    answer = runner.invoke(app, ["get", "addresses", "--data", str(tmp_path)])
    assert answer.exit_code == 7
    shop.token.chmod(0o644)
    refused = runner.invoke(app, ["get", "addresses"])
    assert (refused.exit_code, "chmod 600" in refused.stderr) == (4, True)


def test_commands_default_to_the_space_and_namespace_of_the_context(shop: Obeying) -> None:
    server = f"http://127.0.0.1:{shop.listener.getsockname()[1]}"
    shop.token.chmod(0o600)
    place = ("--server", server, "--token-file", str(shop.token))
    enmasse("context", "set", "shop", *place, "--space", "none", "--namespace", "default")
    assert "orders" not in enmasse("get", "address")
    assert "orders" in enmasse("get", "address", "--space", "default")
    refused = runner.invoke(app, ["create", "address", "a", "--type", "queue"])
    assert "address space 'none' not found" in refused.stderr


def test_messaging_commands_use_the_url_of_the_context(token_file: Path) -> None:
    enmasse("context", "set", "shop", "--url", "amqp://mq.example.com:5672", "--data", "/data")
    assert Server(None, None, None, None).found_url() == "amqp://mq.example.com:5672"
    assert Server(None, None, None, None).pids() == []
    assert Server("amqp://own", None, None, None).found_url() == "amqp://own"
    with pytest.raises(Unavailable, match="no platform runs"):
        Server(None, token_file.parent, None, None).found_url()


def test_missing_ca_file_of_a_context_is_named(token_file: Path) -> None:
    context = Context(server="https://a:1", token_file=str(token_file), ca="/none.crt")
    contexts.save(contexts.Contexts(current="a", contexts={"a": context}))
    with pytest.raises(Missing, match=r"CA /none\.crt"):
        Api.find(None, None, None)


def test_context_without_a_messaging_url_names_the_remedy(token_file: Path) -> None:
    place = ("--server", "https://mq.example.com:6443", "--token-file", str(token_file))
    enmasse("context", "set", "shop", *place)
    with pytest.raises(Missing, match="enmasse context set NAME --url"):
        Server(None, None, None, None).found_url()
