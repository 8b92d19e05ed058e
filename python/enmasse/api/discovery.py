"""Discovery of groups, versions and kinds, in both forms of Kubernetes."""

import re
import sys
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse import __version__
from enmasse.api.http.accept import accepted
from enmasse.api.kinds import SERVED, Kind, of_group_version
from enmasse.engines import Operation
from enmasse.resources import API_VERSION

KUBERNETES_VERSION = (1, 36)
"""The Kubernetes version whose conventions apply."""

AGGREGATED = "APIGroupDiscoveryList"
"""The aggregated form: all groups, versions and kinds in one document."""

ACCESS_VERSION = "authorization.k8s.io/v1"
IDENTITY_VERSION = "authentication.k8s.io/v1"
REVIEWS = {
    ACCESS_VERSION: {
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    },
    IDENTITY_VERSION: {"selfsubjectreviews": "SelfSubjectReview"},
}
"""Questions about the caller's own rights; answered, never stored."""

Document = dict[str, Any]


class DiscoveryPages:
    """The discovery paths."""

    async def version(self, _request: Request) -> Response:
        """The Kubernetes version and the EnMasse version."""
        major, minor = KUBERNETES_VERSION
        text = f"v{major}.{minor}.0+enmasse-{__version__}"
        # Clients require every field; those without a meaning here are empty.
        empty_fields = dict.fromkeys(
            ("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"), ""
        )
        version_fields = {"major": str(major), "minor": str(minor), "gitVersion": text}
        return JSONResponse(version_fields | empty_fields | {"platform": sys.platform})

    async def core(self, request: Request) -> Response:
        """Versions of the core group."""
        if _wants_aggregated(request):
            return _aggregated([""])
        return JSONResponse(
            {
                "kind": "APIVersions",
                "apiVersion": "v1",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        )

    async def groups(self, request: Request) -> Response:
        """The named groups."""
        if _wants_aggregated(request):
            return _aggregated(_groups())
        return JSONResponse(
            {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(name) for name in _groups()],
            }
        )

    async def group(self, request: Request) -> Response:
        """One group."""
        name = request.url.path.rpartition("/")[2]
        return JSONResponse({"kind": "APIGroup", "apiVersion": "v1"} | _group(name))

    async def definitions(self, _request: Request) -> Response:
        """An empty list: all kinds are built in."""
        return JSONResponse(
            {
                "kind": "CustomResourceDefinitionList",
                "apiVersion": "apiextensions.k8s.io/v1",
                "metadata": {"resourceVersion": "0"},
                "items": [],
            }
        )

    async def kinds(self, request: Request) -> Response:
        """The kinds of one group version, and their verbs."""
        group_version = request.url.path.split("/", 2)[2]
        return JSONResponse(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": group_version,
                "resources": _resources(group_version),
            }
        )


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
"""Path at which a client looks up kinds that discovery does not list."""


def named_groups() -> list[str]:
    """Return the named groups with their own page."""
    return _groups()


def group_versions() -> list[str]:
    """Return every group version, by priority."""
    return [*dict.fromkeys([API_VERSION, *(kind.group_version for kind in SERVED), *REVIEWS])]


def _groups() -> list[str]:
    return [*dict.fromkeys(one.rpartition("/")[0] for one in group_versions() if "/" in one)]


def _versions(group: str) -> list[str]:
    """Return the versions of a group with its name, newest first."""
    found = [one for one in group_versions() if one.rpartition("/")[0] == group]
    return sorted(found, key=lambda one: _age(one.rpartition("/")[2]))


def _age(version: str) -> tuple[bool, list[int]]:
    """Return a sort key that is smaller for newer versions: stable first, then by number."""
    return "beta" in version, [-int(number) for number in re.findall(r"[0-9]+", version)]


def _group(name: str) -> Document:
    versions = [{"groupVersion": one, "version": one.rpartition("/")[2]} for one in _versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group_version: str) -> list[Document]:
    if group_version in REVIEWS:
        return [
            _resource(plural, kind, ["create"], namespaced=False)
            for plural, kind in REVIEWS[group_version].items()
        ]
    listed = [one for kind in of_group_version(group_version) for one in _of_kind(kind)]
    if group_version == API_VERSION:
        listed += [
            _resource(f"addresses/{operation}", "MessageOperation", ["create"], namespaced=True)
            for operation in (*Operation, "deadletters", "send")
        ]
        listed += [
            _resource("addresses/links", "LinkList", ["get"], namespaced=True),
            _resource("connections", "Connection", ["delete", "get", "list"], namespaced=True),
            _resource("addressspaces/accessreviews", "AccessReview", ["create"], namespaced=True),
        ]
    return listed


def _of_kind(kind: Kind) -> list[Document]:
    model = kind.model
    whole = _resource(model.plural, kind.name, kind.verbs, namespaced=model.namespaced)
    whole["singularName"] = kind.name.lower()
    if kind.group_version == model.api_versions[0]:  # a short name must denote one kind
        whole |= {"shortNames": list(model.short_names)} if model.short_names else {}
        whole |= {"categories": list(model.categories)} if model.categories else {}
    status = _resource(f"{model.plural}/status", kind.name, ["get"], namespaced=model.namespaced)
    return [whole, status] if kind.has_status else [whole]


def _resource(name: str, kind: str, verbs: list[str], *, namespaced: bool) -> Document:
    return {
        "name": name,
        "singularName": "",
        "namespaced": namespaced,
        "kind": kind,
        "verbs": verbs,
    }


def _wants_aggregated(request: Request) -> bool:
    for media in accepted(request.headers.get("accept")):
        if media.type != "application/json":
            continue
        if media.options.get("as") == AGGREGATED and media.options.get("v") == "v2":
            return True
        if "as" not in media.options:
            return False
    return False


def _aggregated(groups: list[str]) -> Response:
    document = {
        "kind": AGGREGATED,
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(name) for name in groups],
    }
    media = f"application/json;g=apidiscovery.k8s.io;v=v2;as={AGGREGATED}"
    return JSONResponse(document, media_type=media)


def _aggregated_group(name: str) -> Document:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": one.rpartition("/")[2],
                "resources": _aggregated_resources(one),
                "freshness": "Current",
            }
            for one in _versions(name)
        ],
    }


def _aggregated_resources(group_version: str) -> list[Document]:
    group, _, version = group_version.rpartition("/")
    found: dict[str, Document] = {}
    for resource in _resources(group_version):
        plural, _, below = resource["name"].partition("/")
        kind = {"group": group, "version": version, "kind": resource["kind"]}
        if below:
            part = {"subresource": below, "responseKind": kind, "verbs": resource["verbs"]}
            found[plural].setdefault("subresources", []).append(part)
            continue
        found[plural] = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if resource["namespaced"] else "Cluster",
            "singularResource": resource["singularName"],
            "verbs": resource["verbs"],
        }
        for optional in ("shortNames", "categories"):
            if optional in resource:
                found[plural][optional] = resource[optional]
    return list(found.values())
