"""Permissions of each role of the API, by namespace."""

import pytest

from enmasse.auth.roles import OWNER_CALLER, READ, WRITE, Attributes, Caller, able
from enmasse.resources.api_token import TOKENS_NAMESPACE, Role

ALL = frozenset({"*"})
SHOP = frozenset({"shop"})
TENANT = (
    ("enmasse.io", "addresses"),
    ("enmasse.io", "addressspaces"),
    ("enmasse.io", "pipelines"),
    ("user.enmasse.io", "messagingusers"),
    ("", "configmaps"),
)


def asked(text: str) -> Attributes:
    """`verb group/resource[/below] namespace [name]`; `-` is none."""
    verb, what, namespace, *name = text.split()
    group, _, part = what.rpartition(":")
    resource, _, below = part.partition("/")
    where = "" if namespace == "-" else namespace
    return Attributes(verb, group, resource, below, where, *name)


def caller(role: Role, where: frozenset[str] = SHOP) -> Caller:
    return Caller("ci", {role: where})


@pytest.mark.parametrize(("group", "resource"), TENANT)
def test_tenant_roles_edit_or_view_resources_of_their_namespaces(group: str, resource: str) -> None:
    for verb in READ + WRITE:
        here = Attributes(verb, group, resource, namespace="shop")
        assert caller("tenant-edit").may(here)
        assert caller("tenant-view").may(here) is (verb in READ)
        assert caller("service-admin").may(here) is (verb in READ)
        for elsewhere in ("other", ""):
            there = here._replace(namespace=elsewhere)
            assert not any(caller(role).may(there) for role in ("tenant-edit", "tenant-view"))
            assert caller("tenant-edit", ALL).may(there)


@pytest.mark.parametrize("role", ["tenant-edit", "tenant-view", "service-admin"])
@pytest.mark.parametrize("where", [SHOP, ALL])
def test_no_role_reads_token_secrets_or_secrets_of_all_namespaces(
    role: Role, where: frozenset[str]
) -> None:
    for verb in READ + WRITE:
        for namespace in ("", TOKENS_NAMESPACE):
            assert not caller(role, where).may(Attributes(verb, "", "secrets", "", namespace, "x"))
    named = Caller("ci", {role: frozenset({TOKENS_NAMESPACE})})
    assert not named.may(Attributes("get", "", "secrets", "", TOKENS_NAMESPACE, "x"))


@pytest.mark.parametrize(
    ("what", "roles"),
    [
        ("get secrets shop s", ["tenant-edit"]),
        ("create enmasse.io:addresses/purge shop a", ["tenant-edit"]),
        ("create enmasse.io:addresses/peek shop a", ["tenant-edit"]),
        ("get enmasse.io:addresses/status shop a", ["service-admin", "tenant-edit", "tenant-view"]),
        ("list events shop", ["service-admin", "tenant-edit", "tenant-view"]),
        ("get namespaces shop shop", ["service-admin", "tenant-edit", "tenant-view"]),
        ("list namespaces -", ["service-admin"]),
        ("delete namespaces shop shop", []),
        ("patch namespaces shop shop", ["service-admin"]),
        ("create admin.enmasse.io:addressplans shop", ["service-admin"]),
        ("list admin.enmasse.io:authenticationservices -", ["service-admin"]),
        ("list enmasse.io:audit -", ["service-admin"]),
        ("list enmasse.io:logs -", ["service-admin"]),
        ("list enmasse.io:backup -", []),
        ("create enmasse.io:connections/trace -", []),
        ("* enmasse.io:addresses shop", []),
        ("get *:* shop", []),
    ],
)  # fmt: skip
def test_each_request_is_allowed_by_the_expected_roles(what: str, roles: list[str]) -> None:
    question = asked(what)
    assert able(question) == roles
    assert OWNER_CALLER.may(question)
    assert not Caller("nobody").may(question)


def test_token_without_a_role_reads_schemas_and_discovery_only() -> None:
    anybody = Caller("ci")
    assert anybody.may(asked("list enmasse.io:addressspaceschemas -"))
    assert anybody.may(asked("create authorization.k8s.io:selfsubjectaccessreviews -"))
    assert not anybody.may(asked("create enmasse.io:addressspaceschemas -"))
    for path in ("/version", "/api", "/apis/enmasse.io/v1beta1", "/openapi/v3", "/livez"):
        assert anybody.may(Attributes("get", path=path))
    for path in ("/metrics", "/", "/apisx", "/versions"):
        assert not anybody.may(Attributes("get", path=path))
    assert not anybody.may(Attributes("create", path="/version"))
    assert caller("service-admin", ALL).may(Attributes("get", path="/metrics"))
    assert not caller("service-admin", SHOP).may(Attributes("get", path="/metrics"))


def test_metrics_role_reads_metrics_only() -> None:
    scraper = caller("metrics", ALL)
    page = Attributes("get", path="/metrics")
    assert scraper.may(page)
    assert able(page) == ["service-admin", "metrics"]
    assert not scraper.may(Attributes("create", path="/metrics"))
    for group, resource in TENANT:
        for namespace in ("shop", ""):
            assert not scraper.may(Attributes("get", group, resource, namespace=namespace))
    assert not scraper.may(asked("list enmasse.io:logs -"))


def test_roles_apply_only_in_their_own_namespaces() -> None:
    both = Caller("ci", {"tenant-edit": frozenset({"a"}), "tenant-view": frozenset({"b"})})
    assert both.may(asked("create enmasse.io:addresses a"))
    assert both.may(asked("list enmasse.io:addresses b"))
    assert not both.may(asked("create enmasse.io:addresses b"))
    assert both.groups == ["system:authenticated", "enmasse:tenant-edit", "enmasse:tenant-view"]
