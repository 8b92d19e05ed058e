"""An unmodified kubectl against a platform as a user starts it.

T-AS-11 and T-AS-12: create, change, delete and show resources by command.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kube.go_programs import BUILD_TIMEOUT_S, Kubectl, build
from platform_process import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]

ORDERS: dict[str, Any] = {
    "apiVersion": "enmasse.io/v1beta1",
    "kind": "Address",
    "metadata": {"name": "default.orders", "labels": {"team": "north"}},
    "spec": {
        "type": "queue",
        "address": "orders",
        "plan": "standard-small-queue",
        "messageTtl": {"maximum": "1h"},
    },
}
SHOP = {
    "apiVersion": "enmasse.io/v1beta1",
    "kind": "AddressSpace",
    "metadata": {"name": "shop"},
    "spec": {"type": "standard", "authenticationService": {"type": "standard"}},
}
ALICE = {
    "apiVersion": "user.enmasse.io/v1beta1",
    "kind": "MessagingUser",
    "metadata": {"name": "shop.alice"},
    "spec": {
        "username": "alice",
        "authentication": {"type": "password", "password": "dHVtYmxlLWRvd24="},
        "authorization": [{"addresses": ["*"], "operations": ["send", "recv"]}],
    },
}
SECRETS = ("dHVtYmxlLWRvd24", "tumble-down", "storedKey", "verifiers")


@pytest.fixture(scope="module")
def kubectl(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(build(), platform.data / "kubeconfig", tmp_path_factory.mktemp("home"))


@pytest.fixture
def orders(kubectl: Kubectl) -> Iterator[str]:
    """A queue, applied and ready."""
    kubectl("apply", "-f", "-", stdin=text(ORDERS))
    kubectl("wait", "--for=condition=Ready", "address/default.orders", "--timeout=20s")
    yield "default.orders"
    kubectl("delete", "address", "default.orders", "--ignore-not-found")


def text(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents)


def changed(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return document | {"spec": document["spec"] | spec}


def kind(api_version: str, name: str, namespace: str = "north", **content: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": name,
        "metadata": {"name": "team", "namespace": namespace},
    } | content


ADMIN, INFRA = "admin.enmasse.io/v1beta1", "enmasse-infra"
FIRST = changed(SHOP, plan="team", authenticationService={"name": "team"})
EVERY_KIND = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "north"}},
    kind(ADMIN, "StandardInfraConfig", INFRA, spec={"version": "1"}),
    kind(ADMIN, "BrokeredInfraConfig", INFRA, spec={"version": "1"}),
    kind(ADMIN, "AuthenticationService", INFRA, spec={"type": "standard"}),
    kind("admin.enmasse.io/v1beta2", "AddressPlan", INFRA,
         spec={"addressType": "queue", "resources": {"broker": 0.01}}),
    kind("admin.enmasse.io/v1beta2", "AddressSpacePlan", INFRA,
         spec={"addressSpaceType": "standard", "infraConfigRef": "team", "addressPlans": ["team"],
               "resourceLimits": {"router": 1, "broker": 1, "aggregate": 2}}),
    FIRST | {"metadata": {"name": "team", "namespace": "north"}},
    changed(ORDERS, plan="team") | {"metadata": {"name": "team.orders", "namespace": "north"}},
    ALICE | {"metadata": {"name": "team.alice", "namespace": "north"}},
    kind("v1", "Secret", data={"a": "Yg=="}),
    kind("v1", "ConfigMap", data={"a": "b"}),
]  # fmt: skip
"""One resource of each kind that clients may create, in an order that admission accepts."""


def test_kubectl_supports_every_verb_for_every_kind(kubectl: Kubectl) -> None:
    everything = text(*EVERY_KIND)
    where = ("-f", "-")
    on_server = ("--server-side", "--field-manager=kubectl-client-side-apply")
    for how in ((), (), on_server):
        said = kubectl("apply", *how, *where, stdin=everything).splitlines()
        assert len(said) == len(EVERY_KIND)
    for document in EVERY_KIND:
        metadata = document["metadata"]
        one = (f"{document['kind']}.{_group(document)}", metadata["name"])
        here = ("-n", metadata.get("namespace", "default"))
        kubectl(*here, "label", *one, "tier=1")
        kubectl(*here, "patch", *one, "--type=merge", "-p", '{"metadata":{"labels":{"of":"a"}}}')
        add = '[{"op": "replace", "path": "/metadata/labels/of", "value": "b"}]'
        kubectl(*here, "patch", *one, "--type=json", "-p", add)
        kubectl(*here, "annotate", *one, "note=first")
        kubectl(*here, "edit", *one, editor="sed -i s/first/second/")
        shown = json.loads(kubectl(*here, "get", *one, "-o", "json", "--show-managed-fields"))
        assert shown["metadata"]["labels"] == {"tier": "1", "of": "b"}
        assert shown["metadata"]["annotations"]["note"] == "second"
        managers = {entry["manager"] for entry in shown["metadata"]["managedFields"]}
        assert {"kubectl-label", "kubectl-patch", "kubectl-edit"} <= managers
        assert metadata["name"] in kubectl(*here, "get", *one)
        assert metadata["name"] in kubectl(*here, "describe", *one)
        assert document["kind"] in kubectl("explain", document["kind"].lower())
        kubectl(*here, "wait", "--for=jsonpath={.metadata.labels.of}=b", "/".join(one))
        selected = ("--field-selector", f"metadata.name={metadata['name']}", "-l", "of in (b),tier")
        assert kubectl(*here, "get", one[0], *selected, "-o", "name").count("\n") == 1
        other = document | {"metadata": metadata | {"labels": {"tier": "2"}}}
        refused = kubectl.say("apply", "--server-side", "--field-manager=other", *where,
                              stdin=text(other))  # fmt: skip
        assert refused.code == 1 and '"kubectl-label": .metadata.labels.tier' in refused.err
        assert "dry run" in kubectl("replace", "--dry-run=server", *where, stdin=text(document))
        assert kubectl.say("create", *where, stdin=text(document)).err.startswith(
            "Error from server (AlreadyExists)"
        )
    listed = "/apis/enmasse.io/v1beta1/namespaces/north/addresses?watch=1&timeoutSeconds=1"
    initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = [json.loads(line) for line in kubectl("get", "--raw", listed + initial).splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    kubectl("delete", "addressspace", "-n", "north", "--all")
    gone = kubectl("delete", "--ignore-not-found", *where, stdin=everything)
    assert "team.orders" not in gone
    for document in EVERY_KIND:
        assert f'"{document["metadata"]["name"]}' in gone or document["kind"] in (
            "AddressSpace", "Address", "MessagingUser", "Secret", "ConfigMap")  # fmt: skip


def _group(document: dict[str, Any]) -> str:
    group, slash, version = document["apiVersion"].rpartition("/")
    return f"{version}.{group}" if slash else f"{version}."


def test_kubectl_api_resources_lists_the_kinds(kubectl: Kubectl) -> None:
    lines = kubectl("api-resources").splitlines()
    (address,) = [line.split() for line in lines if line.startswith("addresses ")]
    assert address == ["addresses", "addr", "enmasse.io/v1beta1", "true", "Address"]
    assert {"namespaces", "secrets", "configmaps", "events"} <= {line.split()[0] for line in lines}
    assert "Server Version: v1.36" in kubectl("version")


def test_kubectl_explains_a_field(kubectl: Kubectl) -> None:
    said = kubectl("explain", "address.spec.messageTtl.maximum")
    assert "Maximum time to live, in milliseconds" in said
    assert "VERSION:    v1beta1" in said
    assert "one-of" not in kubectl("explain", "messaginguser.spec", "--recursive")


def test_kubectl_get_prints_tables_and_documents(kubectl: Kubectl, orders: str) -> None:
    head, row = kubectl("get", "address", orders).splitlines()
    assert head.split() == [
        "NAME",
        "ADDRESS",
        "TYPE",
        "PLAN",
        "READY",
        "PHASE",
        "STATUS",
        "STORED",
        "SENDERS",
        "RECEIVERS",
        "OUT/S",
        "AGE",
    ]
    assert row.split()[:6] == [orders, "orders", "queue", "standard-small-queue", "true", "Active"]
    assert "DEAD LETTER" in kubectl("get", "addr", "-o", "wide")
    shown = json.loads(kubectl("get", "addr", orders, "-o", "json"))
    assert shown["spec"]["messageTtl"] == {"maximum": 3_600_000}
    assert yaml.safe_load(kubectl("get", "addr", orders, "-o", "yaml"))["kind"] == "Address"
    selected = kubectl("get", "addr", "-l", "team in (north)", "-o", "name")
    assert selected == f"address.enmasse.io/{orders}\n"
    by_field = kubectl("get", "addr", "--field-selector", "spec.type=anycast", "-o", "name")
    assert by_field == "address.enmasse.io/default.anycast\n"
    everything = kubectl("get", "addr", "-A", "-o", "name")
    assert kubectl("get", "addr", "-A", "-o", "name", "--chunk-size=1") == everything


def test_kubectl_watch_prints_changes(kubectl: Kubectl, orders: str) -> None:
    with kubectl.popen(
        "get", "address", orders, "-w", "-o", "jsonpath={.spec.plan}{'\\n'}"
    ) as seen:
        assert seen.stdout is not None
        assert seen.stdout.readline() == "standard-small-queue\n"
        larger = '{"spec": {"plan": "standard-large-queue"}}'
        kubectl("patch", "address", orders, "--type=merge", "-p", larger)
        assert seen.stdout.readline() == "standard-large-queue\n"
        seen.terminate()


def test_kubectl_describe_includes_events(kubectl: Kubectl, orders: str) -> None:
    said = kubectl("describe", "address", orders)
    assert "Is Ready:" in said
    _, events = said.split("Events:")
    assert "Served" in events
    assert "Served" in kubectl("events", "--for", f"address/{orders}")


def test_kubectl_shows_depth_consumers_and_rates(
    kubectl: Kubectl, orders: str, platform: Platform
) -> None:
    platform.enmasse("send", "orders", "--count", "2")
    said = kubectl("describe", "address", orders)
    statistics = said.partition("Statistics:")[2]
    assert re.search(r"Stored:(\n.*)*?\n +Messages: +2\n", statistics)
    for name in ("Senders", "Receivers", "Delivered Per Second", "Enqueued Per Second"):
        assert f"{name}:" in statistics
    table = kubectl("get", "address", orders)
    assert re.search(r"STORED +SENDERS +RECEIVERS +OUT/S", table)
    assert re.search(r" 2 +0 +0 +0 ", table)


def test_kubectl_apply_is_repeatable_and_retains_the_plan(kubectl: Kubectl, orders: str) -> None:
    same = kubectl("apply", "-f", "-", stdin=text(ORDERS))
    assert same in (f"address.enmasse.io/{orders} {word}\n" for word in ("unchanged", "configured"))
    kubectl("apply", "-f", "-", stdin=text(changed(ORDERS, plan=None, messageTtl=None)))
    spec = json.loads(kubectl("get", "addr", orders, "-o", "json"))["spec"]
    # A document that no longer names a plan retains the current one.
    assert spec == {"type": "queue", "address": "orders", "plan": "standard-small-queue"}


def test_kubectl_server_side_apply_tracks_field_managers(kubectl: Kubectl) -> None:
    name, apply = "default.owned", ("apply", "--server-side", "-f", "-")
    mine = changed(ORDERS, address="owned") | {"metadata": {"name": name}}
    kubectl(*apply, stdin=text(mine))
    larger = text(changed(mine, plan="standard-large-queue"))
    refused = kubectl.say(*apply, "--field-manager=other", stdin=larger)
    assert refused.code == 1
    assert 'conflict with "kubectl": .spec.plan' in refused.err
    kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=larger)
    without = mine | {"spec": {"type": "queue", "address": "owned"}}
    kubectl(*apply, stdin=text(without))
    shown = json.loads(kubectl("get", "addr", name, "-o", "json"))
    # The other manager owns both fields, so neither is removed.
    assert shown["spec"] == {"type": "queue", "address": "owned", "plan": "standard-large-queue",
                             "messageTtl": {"maximum": 3_600_000}}  # fmt: skip
    kubectl(*apply, "--field-manager=other", stdin=text(without))
    spec = json.loads(kubectl("get", "addr", name, "-o", "json"))["spec"]
    assert spec == without["spec"] | {"plan": "standard-large-queue"}
    kubectl("delete", "addr", name)


def test_kubectl_client_side_apply_migrates_to_server_side(kubectl: Kubectl, orders: str) -> None:
    spec = {"type": "queue", "address": "orders"}
    kubectl("apply", "--server-side", "-f", "-", stdin=text(ORDERS))
    kubectl("apply", "--server-side", "-f", "-", stdin=text(ORDERS | {"spec": spec}))
    shown = json.loads(kubectl("get", "addr", orders, "-o", "json"))["spec"]
    assert shown == spec | {"plan": "standard-small-queue"}


def test_kubectl_handles_plans_infra_configs_and_schemas(kubectl: Kubectl) -> None:
    kinds = {line.split()[0]: line.split()[1] for line in kubectl("api-resources").splitlines()}
    assert kinds["addressplans"] == kinds["addressspaceplans"] == "admin.enmasse.io/v1beta2"
    assert kinds["standardinfraconfigs"] == "admin.enmasse.io/v1beta1"
    where = ("-n", "enmasse-infra")
    head, row = kubectl("get", *where, "addressplan", "standard-small-queue").splitlines()
    assert head.split() == ["NAME", "TYPE", "READY", "PHASE", "AGE"]
    assert row.split()[:4] == ["standard-small-queue", "queue", "true", "Active"]
    assert "standard-unlimited" in kubectl("get", *where, "addressspaceplans")
    assert "FIELD: router" in kubectl("explain", "addressplan.spec.resources.router")
    schema = json.loads(kubectl("get", "addressspaceschema", "brokered", "-o", "json"))
    assert schema["spec"]["plans"][0]["name"] == "brokered-single-broker"
    used = kubectl.say("delete", *where, "addressspaceplan", "standard-unlimited")
    assert used.code == 1
    assert "is in use by AddressSpace default" in used.err


def test_kubectl_applies_an_address_plan_of_v1beta1(kubectl: Kubectl) -> None:
    older = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": "AddressPlan",
        "metadata": {"name": "older"},
        "displayName": "Older",
        "addressType": "queue",
        "requiredResources": [{"name": "broker", "credit": 0.25}],
    }
    kubectl("apply", "--validate=false", "-f", "-", stdin=text(older))
    plan = json.loads(kubectl("get", "addressplan", "older", "-o", "json"))
    assert plan["spec"]["resources"] == {"broker": 0.25}
    kubectl("delete", "addressplan", "older")


def test_kubectl_create_beyond_the_quota_is_forbidden(kubectl: Kubectl) -> None:
    create = ("create", "--validate=false", "-f", "-")
    kubectl(*create, stdin=text(changed(SHOP, plan="standard-small")))
    wide = changed(ORDERS, plan="standard-large-queue")
    first, second = (wide | {"metadata": {"name": f"shop.{name}"}} for name in ("a", "b"))
    second = changed(second, address="b")
    kubectl(*create, stdin=text(first))
    refused = kubectl.say(*create, stdin=text(second))
    assert refused.code == 1
    assert "(Forbidden)" in refused.err
    assert "exceeded quota" in refused.err
    kubectl("delete", "addressspace", "shop")


def test_kubectl_edits_patches_labels_and_annotates(kubectl: Kubectl, orders: str) -> None:
    kubectl("edit", "address", orders, editor="sed -i s/small/medium/")
    json_patch = '[{"op": "replace", "path": "/metadata/labels/team", "value": "south"}]'
    kubectl("patch", "address", orders, "--type=json", "-p", json_patch)
    kubectl("label", "address", orders, "tier=1")
    kubectl("annotate", "address", orders, "why=because")
    shown = json.loads(kubectl("get", "addr", orders, "-o", "json"))
    assert shown["spec"]["plan"] == "standard-medium-queue"
    assert shown["metadata"]["labels"] == {"team": "south", "tier": "1"}
    assert shown["metadata"]["annotations"]["why"] == "because"
    refused = kubectl.say("patch", "address", orders, "-p", "{}")
    assert "application/strategic-merge-patch+json is not supported" in refused.err
    fixed = kubectl.say(
        "patch", "addr", orders, "--type=merge", "-p", '{"spec":{"address":"other"}}'
    )
    assert 'The Address "default.orders" is invalid: spec.address' in fixed.err


def test_kubectl_validation_refuses_or_warns_of_unknown_fields(kubectl: Kubectl) -> None:
    wrong = text(changed(ORDERS, colour="red"))
    for arguments in (("create",), ("apply",), ("create", "--validate=strict", "--dry-run=server")):
        refused = kubectl.say(*arguments, "-f", "-", stdin=wrong)
        assert refused.code == 1
        assert "spec.colour: unknown field" in refused.err
    warned = kubectl.say("create", "--validate=warn", "--dry-run=server", "-f", "-", stdin=wrong)
    assert warned.code == 0
    assert 'unknown field "spec.colour"' in warned.err
    assert "NotFound" in kubectl.say("get", "addr", "default.orders").err
    late = kubectl.say("create", "-f", "-", stdin=text(ORDERS | {"metadata": {"name": "x.y"}}))
    assert "address space 'x' not found" in late.err
    strange = kubectl.say("create", "-f", "-", stdin=text(ORDERS | {"kind": "Order"}))
    assert 'no matches for kind "Order" in version "enmasse.io/v1beta1"' in strange.err


def test_kubectl_create_of_an_existing_resource_fails(kubectl: Kubectl, orders: str) -> None:
    again = kubectl.say("create", "-f", "-", stdin=text(ORDERS))
    assert f'addresses.enmasse.io "{orders}" already exists' in again.err


def test_T_AS_12_kubectl_replaces_and_deletes(kubectl: Kubectl, orders: str) -> None:
    shown = json.loads(kubectl("get", "addr", orders, "-o", "json"))
    shown["spec"]["plan"] = "standard-large-queue"
    kubectl("replace", "-f", "-", stdin=text(shown))
    stale = kubectl.say("replace", "-f", "-", stdin=text(shown))
    assert "(Conflict)" in stale.err
    assert "dry run" in kubectl("delete", "addr", orders, "--dry-run=server")
    assert kubectl("delete", "addr", orders, "--wait").startswith("address.enmasse.io")
    assert "(NotFound)" in kubectl.say("get", "addr", orders).err


def test_kubectl_delete_completes_after_its_finalizer_is_removed(
    kubectl: Kubectl, orders: str
) -> None:
    keep = '{"metadata": {"finalizers": ["example.com/drain"]}}'
    kubectl("patch", "addr", orders, "--type=merge", "-p", keep)
    kubectl("delete", "addr", orders, "--wait=false")
    kubectl("wait", "--for=jsonpath={.status.phase}=Terminating", f"addr/{orders}", "--timeout=20s")
    none = '{"metadata": {"finalizers": null}}'
    kubectl("patch", "addr", orders, "--type=merge", "-p", none)
    kubectl("wait", "--for=delete", f"addr/{orders}", "--timeout=20s")


def test_T_AS_11_kubectl_applies_spaces_and_users_without_showing_passwords(
    kubectl: Kubectl,
) -> None:
    for arguments in ((), ("--server-side", "--force-conflicts")):
        kubectl("apply", *arguments, "-f", "-", stdin=text(SHOP, ALICE))
    kubectl("wait", "--for=condition=Ready", "addressspace/shop", "--timeout=20s")
    kubectl("wait", "--for=condition=Ready", "messaginguser/shop.alice", "--timeout=20s")
    shown = "".join(
        kubectl("get", f"messagingusers.{group}.io", "-o", "yaml", "--show-managed-fields")
        for group in ("enmasse", "user.enmasse")
    )
    shown += kubectl("describe", "messaginguser", "shop.alice") + kubectl("get", "ev", "-o", "yaml")
    assert "alice" in shown
    assert not [secret for secret in SECRETS if secret in shown]
    assert "shop" in kubectl("get", "enmasse")
    kubectl("delete", "addressspace", "shop")
    assert "(NotFound)" in kubectl.say("get", "messaginguser", "shop.alice").err


def test_kubectl_creates_namespaces_secrets_and_config_maps(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "north")
    kubectl("-n", "north", "create", "configmap", "c", "--from-literal=a=b")
    kubectl("-n", "north", "create", "secret", "generic", "s", "--from-literal=a=b")
    secret = json.loads(kubectl("-n", "north", "get", "secret", "s", "-o", "json"))
    assert secret["data"] == {"a": "Yg=="}
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"a": "1"}}
    for value in ("1", "2"):
        kubectl("-n", "north", "apply", "-f", "-", stdin=text(kept | {"data": {"a": value}}))
    assert kubectl("-n", "north", "get", "cm", "d", "-o", "jsonpath={.data.a}") == "2"
    kubectl("delete", "namespace", "north")
    assert "(NotFound)" in kubectl.say("get", "namespace", "north").err


def test_kubectl_auth_reports_rights_and_identity(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "addresses") == "yes\n"
    assert "enmasse:token" in kubectl("auth", "whoami")
    assert "*.*" in kubectl("auth", "can-i", "--list")
