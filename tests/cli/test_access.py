"""Tokens with roles, and contexts that use them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from cli_platform import Obeying
from doubles import address_plan, infra, space_plan
from enmasse.resources import Key, Secret


def said(shop: Obeying, *words: str) -> str:
    answer = shop.enmasse(*words)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout)


def refusal(shop: Obeying, code: int, *words: str) -> str:
    answer = shop.enmasse(*words)
    assert answer.exit_code == code, answer.output
    return " ".join(answer.stderr.replace("│", " ").split())


def use(shop: Obeying, token: str) -> None:
    """Use another token for all later commands."""
    shop.token.write_text(token)


def test_a_token_has_roles_and_is_shown_once(shop: Obeying) -> None:
    grants = ("--grant", "tenant-edit=default,b", "--grant", "tenant-view=*", "--days", "2")
    token = said(shop, "token", "create", "ci", *grants).strip()
    assert token.startswith("ci.")
    assert len(token) >= 46
    secret = shop.store.get(Key("Secret", "enmasse-tokens", "ci"))
    assert isinstance(secret, Secret)
    assert token not in str(secret.document())
    head, row = said(shop, "token", "list").splitlines()
    assert head.split() == ["NAME", "ROLES", "EXPIRES"]
    assert row.split()[:5] == ["ci", "tenant-edit", "b,default;", "tenant-view", "*"]
    (item,) = json.loads(said(shop, "token", "list", "--output", "json"))["items"]
    assert item["roles"] == {"tenant-edit": ["b", "default"], "tenant-view": ["*"]}
    said(shop, "token", "create", "schema-only")
    assert "never" in said(shop, "token", "list").splitlines()[2]
    assert said(shop, "token", "delete", "ci", "schema-only").splitlines() == [
        "token ci deleted",
        "token schema-only deleted",
    ]
    assert shop.store.get(Key("Secret", "enmasse-tokens", "ci")) is None


def test_invalid_grant_is_refused(shop: Obeying) -> None:
    assert "not a role" in refusal(shop, 2, "token", "create", "ci", "--grant", "admin=default")
    assert "NAMESPACE" in refusal(shop, 2, "token", "create", "ci", "--grant", "tenant-edit")
    assert "is invalid" in refusal(shop, 2, "token", "create", "ci", "--grant", "tenant-edit=A")
    assert "must be *" in refusal(shop, 1, "token", "create", "ci", "--grant", "metrics=default")
    assert shop.store.list("Secret") == []


def test_T_AS_8_tenant_commands_work_only_in_its_namespace(shop: Obeying) -> None:
    use(shop, said(shop, "token", "create", "ci", "--grant", "tenant-edit=default").strip())
    assert "orders" in said(shop, "get", "addresses", "-n", "default")
    said(shop, "create", "address", "own", "--type", "queue", "--no-wait")
    said(shop, "describe", "address", "own")
    found = shop.enmasse("doctor", "own").stdout
    for check in ("plan", "quota"):
        assert re.search(rf"^{check} +ok ", found, re.MULTILINE), found
    said(shop, "delete", "address", "own", "--force")
    text = refusal(shop, 4, "get", "addresses")
    assert 'User "ci" cannot list resource "addresses"' in text
    assert "needs the role service-admin or tenant-edit or tenant-view in all namespaces" in text
    words = ("create", "address", "own", "--type", "queue", "-n", "other", "--no-wait")
    assert "needs the role tenant-edit in other" in refusal(shop, 4, *words)
    refusal(shop, 4, "token", "create", "more", "--grant", "tenant-edit=*")
    refusal(shop, 4, "token", "list")


NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: default, annotations: {enmasse.io/plans: "%s"}}
"""


def test_tenant_cannot_change_the_plans_of_its_namespace(shop: Obeying, tmp_path: Path) -> None:
    file = tmp_path / "namespace.yaml"
    grants = {"ci": "tenant-edit=default", "sa": "service-admin=*"}
    tokens = {name: said(shop, "token", "create", name, "--grant", grants[name]) for name in grants}
    use(shop, tokens["sa"].strip())
    file.write_text(NAMESPACE % "standard-free")
    said(shop, "apply", "-f", str(file))
    use(shop, tokens["ci"].strip())
    create = ("create", "addressspace", "own", "--no-wait", "--plan")
    text = refusal(shop, 4, *create, "standard-unlimited")
    assert "namespace 'default' may not use 'standard-unlimited', only standard-free" in text
    assert "ask a service administrator to list it in annotation enmasse.io/plans" in text
    file.write_text(NAMESPACE % "*")
    assert "namespaces" in refusal(shop, 4, "apply", "-f", str(file))
    said(shop, *create, "standard-free")


def test_tenant_sees_plans_quotas_and_allowances(shop: Obeying) -> None:
    small = address_plan("small", "queue", router=0.25, broker=0.5)
    monthly = {"allowance": {"period": "month", "messages": 150}, "addresses": 3}
    plans = [infra(), small, space_plan("p", [small], (1, 1, 2), limits=monthly)]
    answer = shop.enmasse("apply", "-f", "-", stdin=yaml.safe_dump_all(p.document() for p in plans))
    assert answer.exit_code == 0, answer.output
    said(shop, "create", "addressspace", "team", "--plan", "p")
    said(shop, "create", "address", "a", "--type", "queue", "--space", "team")
    use(shop, said(shop, "token", "create", "ci", "--grant", "tenant-view=default").strip())
    assert "addressspaceplans" in refusal(shop, 4, "get", "addressspaceplans")
    listed = said(shop, "plan", "list")
    assert ["p", "standard", "1", "1", "2", "-"] in [row.split() for row in listed.splitlines()]
    items = json.loads(said(shop, "plan", "list", "-o", "json"))["items"]
    assert [(one["kind"], one["type"], one["name"]) for one in items] == [
        ("AddressSpacePlan", "standard", "p"),
        ("AddressPlan", "queue", "small"),
    ]
    (row,) = said(shop, "plan", "usage", "team", "-n", "default").splitlines()[1:]
    cells = re.split(r" {2,}", row.strip())
    assert cells[:4] == ["team", "default", "p", "1 of 3"]
    assert cells[4:7] == ["1 of 1", "1 of 1", "2 of 2"]
    month = datetime.now(UTC).strftime("%Y-%m")
    assert cells[7:] == [month, "0 of 150", "0"]
    answer = said(shop, "plan", "usage", "team", "-n", "default", "-o", "json")
    uses = {one["resource"]: one for one in json.loads(answer)["items"][0]["uses"]}
    assert uses["messages"] == {
        "resource": "messages", "used": "0", "limit": "150", "is_over": False
    }  # fmt: skip
    schema = json.loads(said(shop, "get", "addressspaceschema", "standard", "-o", "json"))
    assert schema["spec"]["plans"][0]["limits"] == monthly


def test_context_uses_its_own_token(shop: Obeying, tmp_path: Path) -> None:
    viewer = said(shop, "token", "create", "v", "--grant", "tenant-view=default")
    file = tmp_path / "viewer"
    file.write_text(viewer)
    file.chmod(0o600)
    port = shop.listener.getsockname()[1]
    server = f"http://127.0.0.1:{port}"
    words = ("--server", server, "--token-file", str(file), "--namespace", "default")
    said(shop, "context", "set", "shop", *words)
    alone = {"ENMASSE_SERVER": None, "ENMASSE_TOKEN_FILE": None}
    seen = shop.enmasse("get", "addresses", environment=alone)
    assert seen.exit_code == 0, seen.output
    assert "orders" in seen.stdout
    refused = shop.enmasse("delete", "address", "orders", "--force", environment=alone)
    assert refused.exit_code == 4
    assert 'User "v" cannot delete' in " ".join(refused.stderr.replace("│", " ").split())
