"""get, describe, edit, wait, delete, apply, top, user, plan, logs: of resources of any kind."""

import json
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cli_platform import Obeying
from doubles import address_plan, infra, queue, space_plan
from enmasse.cli.options import completion
from enmasse.engines import AddressStatistics, Connection

SMALL = address_plan("small", "queue", router=0.25, broker=0.5, shortDescription="Half a broker")
QUOTA = space_plan("p", [SMALL], (1, 1, 2))


def said(shop: Obeying, *words: str, stdin: str | None = None) -> str:
    """Run one command that succeeds; return what it printed."""
    answer = shop.enmasse(*words, stdin=stdin)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout)


def refused(shop: Obeying, code: int, *words: str, stdin: str | None = None) -> str:
    answer = shop.enmasse(*words, stdin=stdin)
    assert answer.exit_code == code, answer.output
    return " ".join(answer.stderr.replace("│", " ").split())


def documents(*resources: Any) -> str:
    return yaml.safe_dump_all(one.document() for one in resources)


@pytest.fixture
def planned(shop: Obeying) -> Obeying:
    """The shop with plans, and a space `team` that has one."""
    said(shop, "apply", "-f", "-", stdin=documents(infra(), SMALL, QUOTA))
    said(shop, "create", "addressspace", "team", "--plan", "p")
    return shop


def test_get_accepts_every_name_of_a_kind(planned: Obeying) -> None:
    for word in ("addressplans", "addressplan", "AddressPlan", "addressplans.admin.enmasse.io"):
        head, row = said(planned, "get", word).splitlines()
        assert head.split()[:4] == ["NAMESPACE", "NAME", "TYPE", "READY"]
        assert row.split()[:4] == ["enmasse-infra", "small", "queue", "yes"]
    one = said(planned, "get", "addressspaceplan", "p", "--output", "yaml")
    assert yaml.safe_load(one)["spec"]["addressPlans"] == ["small"]
    assert said(planned, "get", "ns", "-o", "name") == (
        "namespace/default\nnamespace/enmasse-infra\n"
    )


def test_get_prints_names_and_wide_tables(shop: Obeying) -> None:
    assert said(shop, "get", "address", "-o", "name").splitlines() == [
        "address.enmasse.io/default.dead",
        "address.enmasse.io/default.orders",
    ]
    head, *rows = said(shop, "get", "address", "-o", "wide").splitlines()
    assert head.split()[-4:] == ["PLAN", "TOPIC", "DEADLETTER", "EXPIRY"]
    assert rows[1].split()[-2:] == ["dead", "-"]
    assert "PLAN" not in said(shop, "get", "address")


def test_get_filters_by_label(shop: Obeying) -> None:
    labelled = queue("default.tasks").with_metadata(labels={"team": "north"})
    said(shop, "apply", "-f", "-", stdin=documents(labelled))
    assert said(shop, "get", "address", "-l", "team=north", "-o", "name") == (
        "address.enmasse.io/default.tasks\n"
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["get", "addresplans"], 1, "the server doesn't have a resource type 'addresplans'; did"
            " you mean 'addressplans'?"),
        (["get"], 2, "You must provide one or more resources by argument or filename"),
        (["get", "address", "-o", "xml"], 2, "unable to match a printer suitable for the output"),
        (["get", "address", "-o", "jsonpath={.a"], 2, "unclosed action in"),
        (["get", "address", "orders", "-l", "a=b"], 2, "name cannot be provided when a selector"),
        (["get", "address/orders", "dead"], 2, "there is no need to specify a resource type as a"),
        (["get", "addresses,users", "-w"], 2, "watch is only supported on individual resources"),
        (["get", "ns", "-w", "default", "x"], 2, "watch is only supported on individual"),
        (["get", "secret", "x", "-A"], 3, "not found"),
        (["describe", "adress", "orders"], 1, "have a resource type 'adress'; did you mean 'addre"),
        (["describe", "address", "ordrs"], 3, "addresses.enmasse.io 'ordrs' not found in address"
            " space 'default'; did you mean 'orders'?"),
        (["delete", "address"], 2, "resource(s) were provided, but no name was specified"),
        (["delete", "address", "orders", "--all"], 2, "name cannot be provided when --all is"),
        (["delete"], 2, "You must provide one or more resources by argument or filename"),
        (["wait", "address", "orders", "--timeout", "soon"], 2, "invalid duration 'soon'"),
        (["apply", "-f", "/none/such"], 1, "cannot read /none/such"),
        (["get", "address", "ordrs"], 3, "did you mean 'orders'?"),
        (["get", "addressplan", "none"], 3, "addressplans.admin.enmasse.io 'none' not found"),
        (["wait", "address"], 2, "no name was specified; name them, or add --all"),
        (["wait", "address", "orders", "--for", "ready"], 2, "unrecognized condition: 'ready'"),
        (["logs", "--level", "loud"], 2, "one of debug, info"),
    ],
)  # fmt: skip
def test_mistyped_commands_get_a_hint(
    shop: Obeying, words: list[str], code: int, says: str
) -> None:
    assert says in refused(shop, code, *words)


def test_describe_shows_conditions_and_events(shop: Obeying) -> None:
    said(shop, "wait", "address", "orders")
    text = said(shop, "describe", "address", "orders")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "Name: default.orders"
    assert "Deadletter: dead" in lines
    assert "TYPE STATUS REASON SINCE MESSAGE" in lines
    assert any(line.startswith("Ready True Served 2026-01-01T00:00:00Z") for line in lines)
    assert any("Normal Served" in line for line in lines)
    assert "Uid" not in text and "Managed" not in text
    both = said(shop, "describe", "address", "orders", "dead")
    assert both.count("Kind: ") == 2


def test_describe_shows_depth_consumers_and_rates(shop: Obeying) -> None:
    uid = shop.address("orders").metadata.uid or ""
    shop.engine.statistics = [
        AddressStatistics(uid, "s", "orders", 1, 2, stored=5, stored_bytes=60)
    ]
    text = said(shop, "describe", "address", "orders")
    statistics = text.partition("Figures:\n")[2].partition("Conditions:")[0]
    shown = dict(line.strip().split(": ", 1) for line in statistics.splitlines())
    assert shown["Stored Messages"].strip() == "5 (60 bytes)"
    assert shown["Consumers"].strip() == "2"
    assert shown["Delivered Per Second"].strip() == "0.0"
    assert "Messages:            none" not in text, "the conditions have these messages"


def completed(shop: Obeying, line: str) -> list[str]:
    """The completions that a shell gets for a line."""
    shell = {
        "_ENMASSE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    found: list[str] = shop.enmasse(environment=shop.environment | shell).output.split()
    return found


def test_a_shell_completes_kinds_and_names(shop: Obeying) -> None:
    assert "addressplans" in completed(shop, "enmasse get addressp")
    assert completed(shop, "enmasse get address or") == ["orders"]
    assert completed(shop, "enmasse describe addressspace/d") == ["addressspace/default"]
    assert completed(shop, "enmasse get nothing x") == []
    url = shop.environment["ENMASSE_SERVER"]
    place = SimpleNamespace(params={"server": url, "token_file": shop.token})
    complete = completion.of("address")
    assert complete(place, "de") == ["dead"]
    place.params["token_file"] = shop.token.with_name("none")
    assert complete(place, "de") == [], "what cannot be learnt is no error"


def test_a_shell_completes_arguments_and_option_values(shop: Obeying) -> None:
    said(shop, "user", "create", "alice", "--password", "pencil")
    said(shop, "token", "create", "ci", "--grant", "tenant-edit=shop")
    plan = {
        "apiVersion": "admin.enmasse.io/v1beta2",
        "kind": "AddressPlan",
        "metadata": {"name": "small-queue", "namespace": "enmasse-infra"},
        "spec": {"addressType": "queue", "resources": {"broker": 0.1}},
    }
    said(shop, "apply", "-f", "-", stdin=yaml.safe_dump(plan))
    expected = {
        "enmasse user passwd a": ["alice"],
        "enmasse user delete a": ["alice"],
        "enmasse plan usage d": ["default"],
        "enmasse token delete c": ["ci"],
        "enmasse get address --space d": ["default"],
        "enmasse user passwd alice --space d": ["default"],
        "enmasse get address --namespace d": ["default"],
        "enmasse move orders d": ["dead"],
        "enmasse move dead orders": ["orders"],
        "enmasse create address later --type queue --plan ": ["small-queue"],
        "enmasse create address later --type queue --deadletter ": ["dead"],
        "enmasse create address later --type subscription --topic ": [],
    }
    assert {line: completed(shop, line) for line in expected} == expected


def test_describe_of_a_user_shows_no_secret(shop: Obeying) -> None:
    said(shop, "user", "create", "alice", "--password", "pencil", "--send", "orders")
    text = said(shop, "describe", "user", "alice")
    assert "Username:" in text and "pencil" not in text and "cGVuY2ls" not in text
    assert "Key" not in text


def test_describe_of_a_secret_shows_only_its_size(shop: Obeying) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key"},
        "stringData": {"password": "pencil"},
    }
    said(shop, "apply", "-f", "-", stdin=yaml.safe_dump(secret))
    text = said(shop, "describe", "secret", "key")
    assert "password: 6 bytes" in " ".join(text.split())
    assert "cGVuY2ls" not in text and "pencil" not in text


def test_wait_ends_on_a_condition_or_a_deletion(shop: Obeying) -> None:
    assert said(shop, "wait", "address", "--all") == (
        "Address default.dead is Ready\nAddress default.orders is Ready\n"
    )
    assert "is Ready=False: no response for 0.1 s" in refused(
        shop, 7, "wait", "address", "orders", "--for", "condition=Ready=False", "--timeout", "0.1"
    ).replace("is not", "is")
    assert "still exists after 0.1 s" in refused(
        shop, 7, "wait", "address", "orders", "--for", "delete", "--timeout", "0.1"
    )
    said(shop, "delete", "address", "orders", "--force")
    assert said(shop, "wait", "address", "orders", "--for", "delete") == ""
    assert "addresses.enmasse.io 'orders' not found" in refused(
        shop, 3, "wait", "address", "orders"
    )


def test_empty_result_is_reported_on_stderr(shop: Obeying) -> None:
    where = "enmasse: no resources found in address space 'trial' of namespace 'default'"
    assert refused(shop, 3, "wait", "addresses", "--all", "--space", "trial") == where
    for words in (["delete", "addresses", "--all"], ["describe", "addresses"]):
        answer = shop.enmasse(*words, "--space", "trial")
        assert (answer.exit_code, answer.stdout.strip()) == (0, "")
        assert answer.stderr.strip() == where
    listed = shop.enmasse("get", "addresses", "-l", "team=none")
    assert (listed.exit_code, listed.stderr) == (0, "enmasse: no resources found\n")
    assert shop.enmasse("get", "addresses", "-l", "team=none", "-o", "name").stderr == ""
    assert (
        shop.enmasse("wait", "addresses", "--all", "--for", "delete", "-s", "trial").exit_code == 0
    )


def editor(folder: Path, program: str) -> str:
    """Return an editor that runs a program on `text`."""
    script = folder / "editor.py"
    script.write_text(
        "import pathlib, subprocess, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "text = file.read_text()\n"
        f"{program}\n"
        "file.write_text(text)\n"
    )
    return f"{sys.executable} {script}"


@pytest.fixture
def edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the program that the editor runs."""

    def does(program: str) -> None:
        monkeypatch.setenv("EDITOR", editor(tmp_path, program))
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    return does


def test_edit_applies_the_changed_document(shop: Obeying, edits: Any) -> None:
    edits("text = text.replace('deadletter: dead', 'messageTtl: {maximum: 5s}')")
    assert said(shop, "edit", "address", "orders") == "Address default.orders changed\n"
    spec = shop.address("orders").spec
    assert spec.deadletter is None
    assert spec.message_ttl is not None and spec.message_ttl.maximum == 5000


@pytest.mark.parametrize("program", ["", "text = ''", "text += '\\n'"])
def test_edit_without_a_change_writes_nothing(shop: Obeying, edits: Any, program: str) -> None:
    said(shop, "wait", "address", "--all")
    said(shop, "wait", "addressspace", "--all")
    version = shop.store.version
    edits(program)
    assert said(shop, "edit", "address", "orders") == "Address default.orders unchanged\n"
    assert shop.store.version == version


def test_refused_edit_is_reopened_in_the_editor(shop: Obeying, edits: Any) -> None:
    edits(
        "bad = 'does not exist; declare it first' in text\n"
        "text = text.replace('deadletter: none', 'deadletter: null') if bad else"
        " text.replace('deadletter: dead', 'deadletter: none')"
    )
    said(shop, "edit", "address", "orders")
    assert shop.address("orders").spec.deadletter is None
    edits("text = text.replace('type: queue', 'type: topic')")
    assert "spec.type: cannot change" in refused(shop, 1, "edit", "address", "orders")
    edits("text = text.replace('type: queue', 'type: [')")
    assert "not a YAML document" in refused(shop, 1, "edit", "address", "orders")


def test_failed_editor_changes_nothing(
    shop: Obeying, edits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits("sys.exit(3)")
    assert "exited with 3; nothing changed" in refused(shop, 1, "edit", "address", "orders")
    monkeypatch.setenv("EDITOR", "/none/such")
    assert "editor '/none/such'" in refused(shop, 1, "edit", "address", "orders")


def meanwhile(shop: Obeying, patch: str) -> str:
    """Return code for an editor program that changes `orders` like a concurrent client."""
    url = f"http://127.0.0.1:{shop.listener.getsockname()[1]}"
    return (
        "import urllib.request\n"
        f"urllib.request.urlopen(urllib.request.Request('{url}/apis/enmasse.io/v1beta1/namespaces"
        f"/default/addresses/default.orders', data=b'{patch}', method='PATCH', headers={{"
        f"'Authorization': 'Bearer the-token', 'Content-Type': 'application/merge-patch+json'}}))\n"
    )


def test_edit_preserves_concurrent_changes_of_other_fields(shop: Obeying, edits: Any) -> None:
    others = meanwhile(shop, '{"metadata": {"labels": {"team": "north"}}}')
    edits(others + "text = text.replace('deadletter: dead', 'expiry: dead')")
    said(shop, "edit", "address", "orders")
    now = shop.address("orders")
    assert (now.spec.deadletter, now.spec.expiry) == (None, "dead")
    assert now.metadata.labels == {"team": "north"}


def test_edit_of_a_concurrently_changed_field_conflicts(
    shop: Obeying, edits: Any, tmp_path: Path
) -> None:
    others = meanwhile(shop, '{"spec": {"messageTtl": {"maximum": 7000}}}')
    edits(others + "text = text.replace('deadletter: dead', 'messageTtl: {maximum: 5000}')")
    told = refused(shop, 5, "edit", "address", "orders")
    assert "spec.messageTtl.maximum changed concurrently; your text is in" in told
    (kept,) = tmp_path.glob("enmasse-default.orders-*.yaml")
    assert "maximum: 5000" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    now = shop.address("orders")
    assert now.spec.message_ttl is not None and now.spec.message_ttl.maximum == 7000


def test_apply_dry_run_changes_nothing(planned: Obeying) -> None:
    text = documents(queue("team.a", address="a", plan="small"))
    told = said(planned, "apply", "-f", "-", "--dry-run", stdin=text)
    assert told == "Address team.a created (dry run)\n"
    assert "team" not in said(planned, "get", "addresses")


def test_a_full_quota_is_exit_code_6(planned: Obeying) -> None:
    for name in ("a", "b"):
        said(planned, "create", "address", name, "--type", "queue", "--space", "team")
    told = refused(planned, 6, "create", "address", "c", "--type", "queue", "--space", "team")
    assert "exceeded quota: address space 'team' would need broker 2 of 1, aggregate 3 of 2" in told
    table = [line.split() for line in said(planned, "plan", "usage").splitlines()]
    assert table[0][:4] == ["SPACE", "NAMESPACE", "PLAN", "ADDRESSES"]
    assert table[0][4:] == ["ROUTER", "BROKER", "AGGREGATE", "PERIOD", "MESSAGES", "BYTES"]
    assert table[2][:-3] == ["team", "default", "p", "2", *"1 of 1 1 of 1 2 of 2".split()]
    assert table[2][-2:] == ["0", "0"]
    (one,) = json.loads(said(planned, "plan", "usage", "team", "-o", "json"))["items"]
    assert one["uses"][1] == {"resource": "broker", "used": "1", "limit": "1", "is_over": False}
    assert "address space 'none' not found" in refused(planned, 3, "plan", "usage", "none")


def test_plans_are_listed(planned: Obeying) -> None:
    text = said(planned, "plan", "list")
    assert ["p", "standard", "1", "1", "2", "-"] in [line.split() for line in text.splitlines()]
    assert text.splitlines()[-1].split() == ["small", "queue", "0.25", "0.5", "Half", "a", "broker"]
    assert "p  " not in said(planned, "plan", "list", "--type", "queue")


def test_plan_is_deleted_by_name_once_it_is_unused(planned: Obeying) -> None:
    assert "is in use by" in refused(planned, 5, "delete", "addressspaceplan", "p")
    said(planned, "delete", "addressspace", "team")
    assert said(planned, "delete", "addressspaceplan", "p") == "AddressSpacePlan p deleted\n"
    assert "addressspaceplans.admin.enmasse.io 'p' not found" in refused(
        planned, 3, "delete", "addressspaceplan", "p"
    )


def test_user_commands_create_change_list_and_delete_users(shop: Obeying) -> None:
    said(shop, "user", "create", "alice", "--password", "pencil", "--send", "orders")
    assert said(shop, "user", "list").splitlines()[1].split() == [
        "alice", "default", "default", "Active", "send", "orders",
    ]  # fmt: skip
    before = shop.engine.plan.spaces[0].users[0]
    assert said(shop, "user", "passwd", "alice", "--password", "crayon") == (
        "password of user alice changed\n"
    )
    after = shop.engine.plan.spaces[0].users[0]
    assert before.verifiers != after.verifiers
    assert before.rights == after.rights
    told = said(shop, "user", "allow", "alice", "--receive", "orders", "--view")
    assert told == "user alice may recv orders; view everywhere\n"
    rights = shop.engine.plan.spaces[0].users[0].rights
    assert {(one.pattern, one.operations) for one in rights} == {
        ("orders", ("recv",)),
        ("#", ("view",)),
    }
    assert said(shop, "user", "allow", "alice") == "user alice may do nothing\n"
    assert shop.engine.plan.spaces[0].users[0].rights == ()
    assert "MessagingUser default.alice deleted" in said(shop, "user", "delete", "alice")
    told = refused(shop, 3, "user", "passwd", "alice", "--password", "x")
    assert "messagingusers.enmasse.io 'alice' not found" in told


def test_user_create_accepts_a_password_secret(shop: Obeying) -> None:
    said(shop, "create", "secret", "generic", "pw", "--from-literal", "word=pencil")
    said(shop, "user", "create", "alice", "--password-secret", "pw/word")
    assert shop.engine.plan.spaces[0].users[0].verifiers
    secret = said(shop, "get", "user/alice", "-o", "jsonpath={.spec.authentication}")
    assert json.loads(secret) == {
        "type": "password",
        "passwordSecret": {"name": "pw", "key": "word"},
    }


def test_top_sorts_addresses_by_depth(shop: Obeying) -> None:
    uids = {name: shop.address(name).metadata.uid or "" for name in ("orders", "dead")}
    shop.engine.statistics = [
        AddressStatistics(
            uids["orders"], "default", "orders", stored=5, stored_bytes=50, senders=1
        ),
        AddressStatistics(uids["dead"], "default", "dead", stored=70, oldest_age_s=3.0),
    ]
    rows = [line.split() for line in said(shop, "top", "--sort", "depth").splitlines()]
    assert rows[0][:5] == ["ADDRESS", "SPACE", "NAMESPACE", "IN", "OUT"]
    assert [row[0] for row in rows[1:]] == ["dead", "orders"]
    assert len(said(shop, "top", "--limit", "1").splitlines()) == 2
    (one,) = json.loads(said(shop, "top", "spaces", "-o", "json"))["items"]
    assert (one["space"], one["addresses"], one["depth"]) == ("default", 2, 75)
    assert (one["storedBytes"], one["oldestAgeSeconds"], one["senders"]) == (50, 3.0, 1)


def test_top_connections_sorts_by_traffic(shop: Obeying) -> None:
    def peer(number: int, space: str | None, messages: int, size: int) -> Connection:
        return Connection(number, space, "alice", "c", "10.0.0.1:5", "amqp", 2,
            messages, messages * size, 0, 0)  # fmt: skip

    shop.engine.open = [
        peer(1, "default.default", 5, 1000),
        peer(2, "north.default", 700, 1),
        peer(3, None, 0, 0),
    ]
    rows = [line.split() for line in said(shop, "top", "connections").splitlines()]
    assert rows[0][:4] == ["ID", "SPACE", "NAMESPACE", "USER"]
    assert [row[0] for row in rows[1:]] == ["2", "1"], "connections without a space are omitted"
    sorted_by_bytes = said(shop, "top", "connections", "--sort", "bytes", "-o", "json")
    first = json.loads(sorted_by_bytes)["items"][0]
    assert (first["id"], first["messagesIn"], first["bytesIn"]) == (1, 5, 5000)
    (here,) = json.loads(said(shop, "top", "connections", "--space", "north", "-o", "json"))[
        "items"
    ]
    assert here["id"] == 2
    spaces = json.loads(said(shop, "top", "spaces", "-o", "json"))["items"]
    found = {one["space"]: (one["connections"], one["links"]) for one in spaces}
    assert found == {"default": (1, 2), "north": (1, 2)}
    assert "rate or bytes" in refused(shop, 2, "top", "connections", "--sort", "age")


def test_describe_accepts_resources_without_a_space(planned: Obeying) -> None:
    assert "Kind:                  Namespace of v1" in said(planned, "describe", "ns", "default")


def test_audit_command_shows_the_trail(shop: Obeying) -> None:
    said(shop, "create", "address", "tasks", "--type", "queue")
    refused(shop, 1, "create", "address", "bad", "--type", "queue", "--deadletter", "none")
    rows = [line.split() for line in said(shop, "audit").splitlines()]
    assert rows[0] == ["TIME", "WHO", "FROM", "VERB", "WHAT", "DECISION", "WHY"]
    assert rows[1][1:] == [
        "enmasse:token", "127.0.0.1", "create", "addresses/default.tasks", "in", "default",
        "allowed", "-",
    ]  # fmt: skip
    (one,) = json.loads(said(shop, "audit", "--refused", "--output", "json"))["items"]
    assert (one["name"], one["fields"]) == ("default.bad", ["spec.deadletter"])
    assert (
        said(shop, "audit", "--refused").splitlines()[1].endswith("E1012 Invalid spec.deadletter")
    )
