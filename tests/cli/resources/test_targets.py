"""Kinds, names, files and selectors of all commands, as in kubectl."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from cli_platform import Obeying
from doubles import queue, space
from enmasse.base.errors import Invalid
from enmasse.base.kinds import KINDS
from enmasse.cli.connect.client import Api
from enmasse.cli.resources.targets import named, seconds
from enmasse.resources import Address


def said(shop: Obeying, *words: str, stdin: str | None = None) -> str:
    """Run one command that succeeds; return what it printed."""
    answer = shop.enmasse(*words, stdin=stdin)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout)


@pytest.fixture
def two(shop: Obeying) -> Obeying:
    """The shop, and a space `north` in a namespace of that name with a queue `jobs`."""
    other = [
        space("north").with_metadata(namespace="north"),
        queue("north.jobs", address="jobs").with_metadata(
            namespace="north", labels={"team": "north"}
        ),
    ]
    said(shop, "apply", "-f", "-", stdin=yaml.safe_dump_all(one.document() for one in other))
    return shop


def test_arguments_parse_as_kinds_and_names() -> None:
    assert named([]) == []
    assert named(["addr"]) == [(KINDS["Address"], ())]
    assert named(["addresses,as", "x"]) == [
        (KINDS["Address"], ("x",)),
        (KINDS["AddressSpace"], ("x",)),
    ]
    assert named(["addresses,addr"]) == [(KINDS["Address"], ())]
    assert named(["address", "news/europe", "b"]) == [(KINDS["Address"], ("news/europe", "b"))]
    assert named(["address/news/europe", "user/alice"]) == [
        (KINDS["Address"], ("news/europe",)),
        (KINDS["MessagingUser"], ("alice",)),
    ]


@pytest.mark.parametrize("words", [["address/a", "b"], ["address/"], ["/a"]])
def test_malformed_kind_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises((typer.BadParameter, Invalid)):
        named(words)


@pytest.mark.parametrize(
    ("text", "length_s"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("0.5", 0.5), ("100ms", 0.1)]
)
def test_durations_are_parsed(text: str, length_s: float) -> None:
    assert seconds(text) == length_s


@pytest.mark.parametrize("text", ["", "soon", "1d", "-1s", "1 s"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)


def test_get_covers_one_namespace_or_all(two: Obeying) -> None:
    both = "address.enmasse.io/default.dead address.enmasse.io/default.orders".split()
    assert said(two, "get", "addresses", "-n", "default", "-o", "name").split() == both
    for flags in (["-A"], ["--all-namespaces", "-n", "default"]):
        assert said(two, "get", "addresses", *flags, "-o", "name").split() == [
            *both,
            "address.enmasse.io/north.jobs",
        ]


def test_get_accepts_several_kinds_and_names(two: Obeying) -> None:
    told = said(two, "get", "addresses,addressspaces", "-n", "north", "-o", "name").split()
    assert told == ["address.enmasse.io/north.jobs", "addressspace.enmasse.io/north"]
    told = said(two, "get", "addressspace/north", "address/orders", "-o", "name").split()
    assert told == ["addressspace.enmasse.io/north", "address.enmasse.io/default.orders"]
    document = json.loads(said(two, "get", "address", "orders", "dead", "-o", "json"))
    assert document["kind"] == "List"
    assert [one["spec"]["address"] for one in document["items"]] == ["orders", "dead"]
    tables = said(two, "get", "addresses,addressspaces,addressplans").split("\n\n")
    assert [table.split()[0] for table in tables] == ["ADDRESS", "SPACE", "NAMESPACE"]


def test_get_of_one_name_returns_the_resource_itself(two: Obeying) -> None:
    for word in (["address", "orders"], ["address/orders"]):
        assert json.loads(said(two, "get", *word, "-o", "json"))["spec"]["address"] == "orders"
        assert said(two, "get", *word, "-o", "jsonpath={.spec.type}") == "queue"


def test_get_supports_jsonpath_and_custom_columns(two: Obeying, tmp_path: Path) -> None:
    told = said(two, "get", "addresses", "-n", "default", "-o", "jsonpath={.items[*].spec.address}")
    assert told == "dead orders"
    file = tmp_path / "template"
    file.write_text("{range .items[*]}{.spec.address}{'\\n'}{end}\n")
    assert said(two, "get", "addr", "-o", f"jsonpath-file={file}") == "dead\norders\njobs\n"
    told = said(two, "get", "addr", "-n", "north", "-o", "custom-columns=A:.spec.address,B:.x")
    assert [line.split() for line in told.splitlines()] == [["A", "B"], ["jobs", "<none>"]]
    told = said(two, "get", "addr", "-n", "north", "--no-headers", "-o", "custom-columns=A:.spec.x")
    assert told == "<none>\n"


def test_label_and_field_selectors_filter_resources(two: Obeying) -> None:
    assert said(two, "get", "addr", "-l", "team=north", "-o", "name").endswith("north.jobs\n")
    fields = ["--field-selector", "spec.type=deadletter"]
    assert said(two, "get", "addr", *fields, "-o", "name") == "address.enmasse.io/default.dead\n"
    assert "Name:                  default.dead" in said(two, "describe", "addr", *fields)
    assert said(two, "wait", "addr", "-l", "team=north", "-n", "north", "-s", "north") == (
        "Address north.jobs is Ready\n"
    )


def test_missing_names_are_reported_after_the_found_ones(two: Obeying) -> None:
    answer = two.enmasse("get", "address", "none", "orders", "-o", "name")
    assert (answer.exit_code, answer.stdout) == (3, "address.enmasse.io/default.orders\n")
    assert "addresses.enmasse.io 'none' not found" in answer.stderr
    assert said(two, "get", "address", "none", "--ignore-not-found") == ""
    assert said(two, "delete", "address", "none", "--ignore-not-found") == ""


def test_no_headers_option_omits_headings(two: Obeying) -> None:
    assert len(said(two, "get", "addressspaces", "--no-headers").splitlines()) == 2


def test_folder_of_documents_is_applied_and_deleted(shop: Obeying, tmp_path: Path) -> None:
    below = tmp_path / "more"
    below.mkdir()
    for folder, name in ((tmp_path, "a"), (below, "b")):
        document = queue(f"default.{name}", address=name).document()
        (folder / f"{name}.yml").write_text(yaml.safe_dump(document))
    (tmp_path / "README.md").write_text("not a resource")
    assert said(shop, "apply", "-f", str(tmp_path)) == "Address default.a created\n"
    told = said(shop, "apply", "-f", str(tmp_path), "-R").splitlines()
    assert told == ["Address default.a unchanged", "Address default.b created"]
    assert said(shop, "wait", "-f", str(tmp_path), "-R").count("is Ready") == 2
    assert said(shop, "describe", "-f", str(tmp_path)).startswith(
        "Name:                  default.a"
    )
    would = said(shop, "delete", "-f", str(tmp_path), "-R", "--dry-run").splitlines()
    assert would == ["Address default.b deleted (dry run)", "Address default.a deleted (dry run)"]
    assert said(shop, "delete", "-f", str(tmp_path), "-R").count("deleted") == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = shop.enmasse("apply", "-f", str(empty))
    assert refused.exit_code == 1 and "recognized file extensions are .yaml" in refused.stderr


def test_namespace_option_applies_to_documents_without_one(shop: Obeying) -> None:
    document: Any = space("south").document()
    document["metadata"].pop("namespace", None)
    text = yaml.safe_dump(document)
    assert "south" in said(shop, "apply", "-f", "-", "-n", "far", stdin=text)
    assert said(shop, "get", "as", "-n", "far", "-o", "name") == "addressspace.enmasse.io/south\n"
    document["metadata"]["namespace"] = "near"
    refused = shop.enmasse("apply", "-f", "-", "-n", "far", stdin=yaml.safe_dump(document))
    assert "'near' does not match the namespace 'far'; you must pass -n near" in refused.stderr


def test_create_from_file_fails_for_an_existing_resource(shop: Obeying, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(queue("default.a", address="a").document()))
    assert said(shop, "create", "-f", str(file)) == "Address default.a created\n"
    assert shop.enmasse("create", "-f", str(file)).exit_code == 5


def test_create_makes_namespaces_secrets_and_config_maps(shop: Obeying, tmp_path: Path) -> None:
    file = tmp_path / "alice.pw"
    file.write_bytes(b"pencil")
    said(shop, "create", "namespace", "team")
    said(shop, "create", "secret", "generic", "s", "--from-file", f"password={file}", "-n", "team",
         "--from-file", str(file), "--from-literal", "a=b=c")  # fmt: skip
    data = json.loads(said(shop, "get", "secret", "s", "-n", "team", "-o", "json"))["data"]
    assert data == {"password": "cGVuY2ls", "alice.pw": "cGVuY2ls", "a": "Yj1j"}
    said(shop, "create", "configmap", "c", "--from-literal", "colour=green")
    assert said(shop, "get", "cm/c", "-o", "jsonpath={.data.colour}") == "green"
    for words in (["--from-literal", "x"], ["--from-literal", "a=1", "--from-literal", "a=2"]):
        assert shop.enmasse("create", "secret", "generic", "t", *words).exit_code == 2


def test_delete_all_removes_every_resource_of_a_kind(two: Obeying) -> None:
    assert said(two, "delete", "addresses", "--all", "-A", "-s", "north").split()[1] == "north.jobs"
    assert said(two, "delete", "address/orders", "address/dead").count("deleted") == 2
    assert said(two, "get", "addresses", "-o", "name") == ""


def test_wait_for_jsonpath_ends_when_the_value_matches(shop: Obeying) -> None:
    told = said(shop, "wait", "address/orders", "--for", "jsonpath={.status.phase}=Active")
    assert told == "Address default.orders is {.status.phase}=Active\n"
    said(shop, "wait", "address/orders", "--for", "jsonpath=.status.phase")
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    said(shop, "wait", "address/orders", "--for", f"jsonpath={ready}=True")
    late = shop.enmasse("wait", "address/orders", "--for", "jsonpath={.x}", "--timeout", "10ms")
    assert late.exit_code == 7 and "default.orders is not {.x}" in late.stderr


def test_watch_by_name_covers_each_space_that_has_it(
    two: Obeying, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = queue("north.orders", address="orders").with_metadata(namespace="north")
    said(two, "apply", "-f", "-", stdin=yaml.safe_dump(same.document()))

    def ended(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Api, "watch", ended)
    form = ["-o", "jsonpath={.metadata.name};"]
    assert two.enmasse("get", "address", "orders", "-w", *form).stdout.split(";") == [
        "default.orders", "north.orders", ""]  # fmt: skip
    table = two.enmasse("get", "address", "orders", "-w").stdout.splitlines()
    assert [row.split()[1] for row in table[1:]] == ["default.orders", "north.orders"]
    for where in (["-n", "north"], ["-s", "north"]):
        answer = two.enmasse("get", "address", "orders", "-w", *form, *where)
        assert answer.stdout == "north.orders;"


def test_get_watch_prints_changes(
    shop: Obeying, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said(shop, "wait", "addresses", "--all")
    watched = Api.watch
    begun = threading.Event()

    def until_deleted(self: Api, *asked: Any, **said_too: Any) -> Any:
        begun.set()
        for event in watched(self, *asked, **said_too):
            yield event
            if event["type"] == "DELETED":
                raise KeyboardInterrupt

    monkeypatch.setattr(Api, "watch", until_deleted)

    def others() -> None:
        begun.wait(10)
        patch = {"metadata": {"labels": {"team": "north"}}}
        url = f"http://127.0.0.1:{shop.listener.getsockname()[1]}"
        with Api(url, shop.token.read_text()) as api:
            api.patch(Address, "default", "default.orders", patch)
            api.delete("addresses", "default", "default.orders")

    for form in (["-o", "jsonpath={.metadata.labels.team};"], []):
        said(shop, "apply", "-f", "-", stdin=yaml.safe_dump(queue().document()))
        begun.clear()
        thread = threading.Thread(target=others)
        thread.start()
        answer = shop.enmasse("get", "address", "orders", "-w", *form)
        thread.join()
        assert answer.exit_code == 130
        if form:
            assert answer.stdout == ";north;north;"
        else:
            heading, *rows = answer.stdout.splitlines()
            assert heading.split()[:3] == ["NAMESPACE", "NAME", "ADDRESS"]
            assert [row.split()[1] for row in rows] == ["default.orders"] * 3
