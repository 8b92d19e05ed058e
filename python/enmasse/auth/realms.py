"""Realms of a Keycloak, created and removed with the address spaces of their users.

A realm is ours if its attributes contain the uid of the service and its id is the uid of its space.
Any other realm is used but never changed. So is a realm of a space that the store does not know
Any other realm is used but never changed. The same holds for the realm of a space that the store
does not know because it was restored to an earlier time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from enmasse.auth.fetching import Answer, Change, fetch
from enmasse.auth.grants import Refused, Unanswered
from enmasse.store.restored import UnknownPeriod, is_lost

KEEPING_TIMEOUT_S = 20.0
"""Time after which a pass begins no further realm; the next pass continues."""

REALM_TIMEOUT_S = 30.0
"""Time-out for creating or removing one realm, which takes a Keycloak seconds."""

LIST_BYTES_MAX = 4 * 1024 * 1024
"""Maximum size of a realm list: about ten thousand realms."""

FOREIGN_MAX = 10_000
"""Maximum remembered realms that are not ours."""

SERVICES_MAX = 1_000
"""Maximum services with cached realm lists; the oldest is evicted."""

MARK = "enmasse.authenticationService"
"""Realm attribute: uid of the service that created it."""

CREATED = "enmasse.addressSpaceCreated"
"""Realm attribute: creation time of its space."""

GROUPS = ("manage", "monitor", "send_%23", "recv_%23")
"""Groups of a new realm: manage and view the space, send and receive everywhere."""


class Call(Protocol):
    """Sends a request; see `fetching.fetch`."""

    async def __call__(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        ca: str | None = None,
        change: Change | None = None,
        timeout_s: float = REALM_TIMEOUT_S,
        bytes_max: int = LIST_BYTES_MAX,
    ) -> Answer:
        """Return the response."""


@dataclass(frozen=True, slots=True)
class Administration:
    """A Keycloak, its administrator, and the template of its realms."""

    url: str
    service_uid: str
    user: str
    password: str = field(repr=False)
    client_id: str
    client_secret: str | None = field(repr=False)
    ca: str | None = None


class Spaces(NamedTuple):
    """The desired realms at one moment."""

    wanted: Mapping[str, str]
    """Realm names by the uids of their spaces."""

    alive: Collection[str]
    """Uids of all spaces."""

    created: Mapping[str, str] = MappingProxyType({})
    """Creation times of the spaces with realms, by uid."""

    lost: tuple[UnknownPeriod, ...] = ()
    """Periods that the store does not know: existing realms may have been created then."""


ListSpaces = Callable[[], Awaitable[Spaces]]
"""Returns the present spaces; raises Unanswered if they are unknown."""


class Realms:
    """Synchronises realms with spaces."""

    def __init__(self, call: Call = fetch) -> None:
        """`call` sends requests to a Keycloak."""
        self._call = call
        self._foreign: set[str] = set()
        self._lost: tuple[UnknownPeriod, ...] = ()
        self._known: dict[str, set[str]] = {}
        """Uids of the spaces that have their realm, by the uids of the managed services."""

    def has(self, service_uid: str, space_uid: str) -> bool:
        """Whether the realm with that name belongs to the space, as far as known: not to a deleted
        space of the name, or to another space. Before the first pass none does.
        """
        known = self._known.get(service_uid)
        return known is None or space_uid in known

    async def keep(self, administration: Administration, list_spaces: ListSpaces) -> None:
        """Create missing realms and remove those whose spaces are gone.

        Raises: Refused if the Keycloak denies access; Unanswered if it does not respond, the spaces
            are unknown, or work remains for another pass.
        """
        keeping = _Pass(self._call, administration, await self._log_in(administration))
        listed = await keeping.realms()
        # Listed after the realms: a realm that another leader just created then has its space here.
        spaces = await list_spaces()
        wanted, alive = spaces.wanted, spaces.alive
        left = asyncio.get_running_loop().time() + KEEPING_TIMEOUT_S
        self._forget_foreign(listed, spaces.lost)
        gone: list[str] = []
        for uid, name in listed.items():
            if self._is_kept(administration, uid, alive):
                continue
            if asyncio.get_running_loop().time() > left:
                raise Unanswered("more realms remain to be checked")
            if await keeping.is_removable(name, spaces.lost):
                gone.append(name)
            else:
                self._foreign.add(administration.service_uid + uid)
        names = {name for uid, name in listed.items() if self._is_kept(administration, uid, alive)}
        known = self._note(administration, listed, wanted)
        for name in gone:
            if asyncio.get_running_loop().time() > left:
                raise Unanswered("more realms remain to be removed")
            await keeping.remove(name)
        missing = {uid: name for uid, name in wanted.items() if name not in names}
        for done, (uid, name) in enumerate(missing.items()):
            if asyncio.get_running_loop().time() > left:
                raise Unanswered(f"{len(missing) - done} realms remain to be created")
            if await keeping.make(uid, name, spaces.created.get(uid)):
                known.add(uid)

    def _note(
        self, administration: Administration, listed: Mapping[str, str], wanted: Mapping[str, str]
    ) -> set[str]:
        """Record which spaces have their realm; return it for spaces with realms."""
        service = administration.service_uid
        foreign = {name for uid, name in listed.items() if service + uid in self._foreign}
        own = {uid for uid, name in wanted.items() if listed.get(uid) == name or name in foreign}
        self._known.pop(service, None)
        while len(self._known) >= SERVICES_MAX:
            del self._known[next(iter(self._known))]
        self._known[service] = own
        return own

    def _is_kept(self, administration: Administration, uid: str, alive: Collection[str]) -> bool:
        return uid in alive or (administration.service_uid + uid) in self._foreign

    def _forget_foreign(self, listed: Collection[str], lost: tuple[UnknownPeriod, ...]) -> None:
        if len(self._foreign) + len(listed) > FOREIGN_MAX or lost != self._lost:
            self._foreign.clear()
        self._lost = lost

    async def _log_in(self, administration: Administration) -> str:
        """Return a token of the administrator."""
        form = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": administration.user,
            "password": administration.password,
        }
        where = f"{administration.url}/realms/master/protocol/openid-connect/token"
        answer = await self._call(where, form=form, ca=administration.ca)
        if answer.status in (400, 401):
            raise Refused(
                f"{where} refused the administrator login; set admin.username"
                " and admin.password in the Secret of"
                " spec.keycloak.credentialsSecret to an account that can create"
                " realms"
            )
        token = answer.document().get("access_token")
        if answer.status != 200 or not isinstance(token, str):
            raise Unanswered(f"{where} answered with status {answer.status} and no token")
        return token


class _Pass:
    """One pass, with the administrator's token."""

    def __init__(self, call: Call, administration: Administration, token: str) -> None:
        self._call = call
        self._administration = administration
        self._token = token

    async def realms(self) -> dict[str, str]:
        """Return the names of all realms by id."""
        answer = await self._ask("GET", "?briefRepresentation=true", good=(200,))
        return {str(one.get("id")): str(one.get("realm")) for one in answer.members()}

    async def is_removable(self, name: str, lost: tuple[UnknownPeriod, ...]) -> bool:
        """Whether a realm without a space is ours and the store can know that space."""
        answer = await self._ask("GET", _path(name), good=(200, 404))
        found = answer.document().get("attributes")
        attributes = found if isinstance(found, dict) else {}
        is_ours = attributes.get(MARK) == self._administration.service_uid
        return is_ours and not is_lost(attributes.get(CREATED), lost)

    async def remove(self, name: str) -> None:
        await self._ask("DELETE", _path(name), good=(204, 404))

    async def make(self, uid: str, name: str, created: str | None) -> bool:
        # 409: another process created it; the next pass checks to whom it belongs.
        document = realm(self._administration, uid, name, created)
        answer = await self._ask("POST", "", good=(201, 409), document=document)
        return answer.status == 201

    async def _ask(
        self, method: str, path: str, good: Collection[int], document: object = None
    ) -> Answer:
        where = f"{self._administration.url}/admin/realms{path}"
        change = Change(method, self._token, document)
        answer = await self._call(
            where,
            ca=self._administration.ca,
            change=change,
            timeout_s=REALM_TIMEOUT_S,
            bytes_max=LIST_BYTES_MAX,
        )
        if answer.status in (401, 403):
            raise Refused(
                f"{where} refused {method} of a realm; grant the administrator"
                " the role admin of the realm master"
            )
        if answer.status not in good:
            raise Unanswered(f"{where} answered {method} with status {answer.status}")
        return answer


def realm(
    administration: Administration, space_uid: str, name: str, created: str | None
) -> dict[str, Any]:
    """Return the document of a new realm: a client whose tokens contain groups, and no users;
    `created` is the creation time of the space.
    """
    mapper = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "access.token.claim": "true"},
    }
    # Direct grants only: the node forwards passwords, and the client has no browser login.
    client: dict[str, Any] = {
        "clientId": administration.client_id,
        "enabled": True,
        "publicClient": administration.client_secret is None,
        "directAccessGrantsEnabled": True,
        "standardFlowEnabled": False,
        "protocolMappers": [mapper],
    }
    if administration.client_secret is not None:
        client["secret"] = administration.client_secret
    return {
        "id": space_uid,
        "realm": name,
        "enabled": True,
        "attributes": {MARK: administration.service_uid} | ({CREATED: created} if created else {}),
        "groups": [{"name": group} for group in GROUPS],
        "clients": [client],
    }


def _path(name: str) -> str:
    return "/" + quote(name, safe="")
