"""Rights of the API roles, with the names of the original. Pure.

    service-admin  plans, infra configs, authentication services; cordons and forgets nodes; reads
                   tenants' resources
    tenant-edit    all resources of tenants, and their messages
    tenant-view    reads resources of tenants, but no Secrets and no messages
    metrics        reads /metrics only
    schema         available plans and the API description; every caller has it

A role is granted in namespaces. Objects outside namespaces (logs, the audit trail, connections) and
lists over all namespaces require it in `*`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from enmasse.resources.api_token import EVERYWHERE, ROLES, TOKENS_NAMESPACE, Role

OWNER = "enmasse:token"
"""Caller name of the owner's token, which has every right."""

ANY = "*"
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
GROUP, ADMIN_GROUP, USER_GROUP = "enmasse.io", "admin.enmasse.io", "user.enmasse.io"


class Attributes(NamedTuple):
    """The attributes of a request, as in Kubernetes."""

    verb: str
    group: str = ""
    resource: str = ""
    """The plural of the kind. Empty: the path is not a resource."""

    subresource: str = ""
    namespace: str = ""
    """Empty: all namespaces, or none."""

    name: str = ""
    path: str = ""

    @property
    def part(self) -> str:
        """The resource as in rules: `addresses` or `addresses/purge`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rule(NamedTuple):
    """Verbs on resources of a group."""

    verbs: tuple[str, ...]
    group: str
    resources: tuple[str, ...]

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule covers a request."""
        return (
            _has(self.verbs, asked.verb)
            and self.group in (ANY, asked.group)
            and _has(self.resources, asked.part)
        )


EVERYTHING = (Rule((ANY,), ANY, (ANY,)),)

_USERS = ("messagingusers",)
_DECLARED = ("addresses", "addressspaces", "pipelines", *_USERS)


def _status(resources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{one}/status" for one in resources)


_OBSERVED = (
    "connections",
    "overview",
    "query_range",
    "samples",
    "addresses/links",
    "addressspaces/mqttsessions",
    "pipelines/report",
)
"""What a node reports about tenants: in a namespace, or in all of them."""

_SEEN = (
    Rule(READ, GROUP, _DECLARED + _status(_DECLARED)),
    Rule(READ, USER_GROUP, _USERS + _status(_USERS)),
    Rule(READ, "", ("configmaps", "events", "services")),
    Rule(READ, GROUP, _OBSERVED),
    Rule(("create",), GROUP, ("addressspaces/accessreviews",)),
    Rule(("get",), "", ("namespaces",)),
)
_ADMINISTERED = (
    *("addressplans", "addressspaceplans", "authenticationservices"),
    *("brokeredinfraconfigs", "messagingnodes", "standardinfraconfigs"),
)
_MESSAGE_OPERATIONS = ("copy", "deadletters", "move", "peek", "purge", "redrive", "send")
_OPERATIONS = tuple(f"addresses/{one}" for one in _MESSAGE_OPERATIONS)


RULES: Mapping[Role, tuple[Rule, ...]] = {
    "service-admin": (
        Rule(READ + WRITE, ADMIN_GROUP, _ADMINISTERED),
        Rule(READ, ADMIN_GROUP, _status(_ADMINISTERED)),
        Rule(READ, GROUP, ("audit", "connections", "logs")),
        Rule(("create",), GROUP, ("changereviews",)),
        Rule(("create", "patch", "update", *READ), "", ("namespaces",)),
        *_SEEN,
    ),
    "tenant-edit": (
        Rule(WRITE, GROUP, _DECLARED),
        Rule(WRITE, USER_GROUP, _USERS),
        Rule(WRITE, "", ("configmaps", "services")),
        Rule(READ + WRITE, "", ("secrets",)),
        Rule(("create",), GROUP, _OPERATIONS),
        Rule(("create",), GROUP, ("addressspaces/connectiontokens",)),
        Rule(("update",), GROUP, ("pipelines/report",)),
        Rule(("delete",), GROUP, ("addressspaces/mqttsessions", "connections")),
        Rule(("get", "delete"), GROUP, ("addressspaces/retained",)),
        Rule(("get", "watch"), GROUP, ("connections/trace",)),
        *_SEEN,
    ),
    "tenant-view": _SEEN,
    "metrics": (),
}

SCHEMA = (
    Rule(READ, GROUP, ("addressspaceschemas",)),
    Rule(
        ("create",),
        "authorization.k8s.io",
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
    Rule(("create",), "authentication.k8s.io", ("selfsubjectreviews",)),
    Rule(("list",), "apiextensions.k8s.io", ("customresourcedefinitions",)),
)
SCHEMA_PATHS = ("/version", "/api", "/apis", "/openapi", "/livez", "/healthz", "/readyz")
"""Paths outside resources that every caller may read, with everything below them."""

METRICS_PATHS = ("/metrics",)
METRICS_ROLES: tuple[Role, ...] = ("service-admin", "metrics")
"""Roles that may read them if granted in all namespaces."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The bearer of a token, and its rights."""

    name: str
    roles: Mapping[Role, frozenset[str]] = field(default_factory=dict)
    """Namespaces by role."""

    expires: datetime | None = None
    """Expiry of the token."""

    is_federated: bool = False
    """Whether an issuer of tokens named it (OpenID Connect)."""

    @property
    def is_owner(self) -> bool:
        """Whether this is the owner."""
        return self.name == OWNER

    @property
    def groups(self) -> list[str]:
        """Kubernetes groups of the caller, and its roles as groups."""
        roles = (f"enmasse:{role}" for role in ROLES if role in self.roles)
        return ["system:authenticated", *roles]

    def rules(self, namespace: str) -> Iterator[Rule]:
        """Yield its rules for a namespace; empty: for all namespaces at once."""
        if self.is_owner:
            yield from EVERYTHING
            return
        yield from SCHEMA
        if namespace == TOKENS_NAMESPACE:
            return
        for role, where in self.roles.items():
            if EVERYWHERE in where or (namespace and namespace in where):
                yield from (_lists_no_tokens(RULES[role]) if not namespace else RULES[role])

    def paths(self) -> tuple[str, ...]:
        """Return the non-resource paths it may read, each with everything below."""
        reads_metrics = any(EVERYWHERE in self.roles.get(role, ()) for role in METRICS_ROLES)
        return SCHEMA_PATHS + (METRICS_PATHS if reads_metrics else ())

    def may(self, asked: Attributes) -> bool:
        """Whether it has the right."""
        if not asked.resource:
            if self.is_owner:
                return True
            below = any(f"{asked.path}/".startswith(f"{one}/") for one in self.paths())
            return asked.verb == "get" and below
        return any(rule.allows(asked) for rule in self.rules(asked.namespace))


OWNER_CALLER = Caller(OWNER)


def able(asked: Attributes) -> list[Role]:
    """Return the roles that grant a right."""
    if not asked.resource:
        return [role for role in ROLES if Caller("", {role: frozenset({EVERYWHERE})}).may(asked)]
    if asked.namespace == TOKENS_NAMESPACE:
        return []
    where = frozenset({asked.namespace or EVERYWHERE})
    return [role for role in ROLES if Caller("", {role: where}).may(asked)]


def _has(known: tuple[str, ...], asked: str) -> bool:
    return ANY in known or asked in known


def _lists_no_tokens(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Exclude Secrets: among those of all namespaces are the token digests."""
    return (rule for rule in rules if "secrets" not in rule.resources)
