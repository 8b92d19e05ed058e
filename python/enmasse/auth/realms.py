"""Realms of a Keycloak, made and removed with the address spaces whose users they hold.

A realm is ours if it says so: it has the uid of the service among its attributes, and the uid of
its space for an id. One that does not is somebody else's: it is used, and never changed. So is one
of a space of which the store knows nothing since it was restored to a time before that space.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from enmasse.auth.fetching import Answer, Change, fetch
from enmasse.auth.grants import Refused, Unanswered
from enmasse.store.restored import Lost, is_lost

KEEPING_TIMEOUT_S = 20.0
"""After this time no further realm is begun; what is left has its turn at the next pass."""

REALM_TIMEOUT_S = 30.0
"""Time to make or remove one realm, which takes a Keycloak seconds."""

LIST_BYTES_MAX = 4 * 1024 * 1024
"""Longest list of realms that is read: some ten thousand."""

FOREIGN_MAX = 10_000
"""Realms that are remembered not to be ours."""

SERVICES_MAX = 1_000
"""Services of which it is known whose realms there are; of more the one kept longest ago goes."""

MARK = "enmasse.authenticationService"
"""The attribute of a realm that names the service which made it, by uid."""

CREATED = "enmasse.addressSpaceCreated"
"""The attribute of a realm that says when its space was made."""

GROUPS = ("manage", "monitor", "send_%23", "recv_%23")
"""Groups of a new realm: to manage and to view the space, to send and to receive everywhere."""


class Call(Protocol):
    """Asks a server; see `fetching.fetch`."""

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
        """Return the answer."""


@dataclass(frozen=True, slots=True)
class Administration:
    """Where realms are kept, by whom, and what is in each."""

    url: str
    service_uid: str
    user: str
    password: str = field(repr=False)
    client_id: str
    client_secret: str | None = field(repr=False)
    ca: str | None = None


class Spaces(NamedTuple):
    """What there is to have realms, at one moment."""

    wanted: Mapping[str, str]
    """Names of realms by the uids of the spaces that want them."""

    alive: Collection[str]
    """Uids of all spaces."""

    created: Mapping[str, str] = MappingProxyType({})
    """When those that want realms were made, by uid."""

    lost: tuple[Lost, ...] = ()
    """Times of which the store knows nothing: what is alive may have been made then."""


Looking = Callable[[], Awaitable[Spaces]]
"""Looks which spaces there are, those of this moment; raises Unanswered if that is not known."""


class Realms:
    """Keeps realms in step."""

    def __init__(self, call: Call = fetch) -> None:
        """`call` asks a Keycloak."""
        self._call = call
        self._foreign: set[str] = set()
        self._lost: tuple[Lost, ...] = ()
        self._known: dict[str, set[str]] = {}
        """Uids of the spaces that have their realm, by the uids of the services kept here."""

    def has(self, service_uid: str, space_uid: str) -> bool:
        """Whether the realm of that name is the space's, as far as one knows: not one that a
        deleted space of the name has left, or another space's. Before the first pass nobody does.
        """
        known = self._known.get(service_uid)
        return known is None or space_uid in known

    async def keep(self, administration: Administration, look: Looking) -> None:
        """Make the realms of spaces that are missing, and remove those whose spaces are gone.

        Raises: Refused if the Keycloak does not let us; Unanswered if it does not answer, nobody
            knows which spaces there are, or there is more to do than one pass does.
        """
        keeping = _Keeping(self._call, administration, await self._log_in(administration))
        listed = await keeping.realms()
        # After the list: a realm that another leader has just made has its space in what is found.
        spaces = await look()
        wanted, alive = spaces.wanted, spaces.alive
        left = asyncio.get_running_loop().time() + KEEPING_TIMEOUT_S
        self._forget_foreign(listed, spaces.lost)
        gone: list[str] = []
        for uid, name in listed.items():
            if self._stays(administration, uid, alive):
                continue
            if asyncio.get_running_loop().time() > left:
                raise Unanswered("further realms are still to be looked at")
            if await keeping.is_to_go(name, spaces.lost):
                gone.append(name)
            else:
                self._foreign.add(administration.service_uid + uid)
        names = {name for uid, name in listed.items() if self._stays(administration, uid, alive)}
        known = self._note(administration, listed, wanted)
        for name in gone:
            if asyncio.get_running_loop().time() > left:
                raise Unanswered("further realms are still to be removed")
            await keeping.remove(name)
        missing = {uid: name for uid, name in wanted.items() if name not in names}
        for done, (uid, name) in enumerate(missing.items()):
            if asyncio.get_running_loop().time() > left:
                raise Unanswered(f"{len(missing) - done} realms are still to be made")
            if await keeping.make(uid, name, spaces.created.get(uid)):
                known.add(uid)

    def _note(
        self, administration: Administration, listed: Mapping[str, str], wanted: Mapping[str, str]
    ) -> set[str]:
        """Note which spaces have their realm; return that, for those that are made yet."""
        service = administration.service_uid
        foreign = {name for uid, name in listed.items() if service + uid in self._foreign}
        own = {uid for uid, name in wanted.items() if listed.get(uid) == name or name in foreign}
        self._known.pop(service, None)
        while len(self._known) >= SERVICES_MAX:
            del self._known[next(iter(self._known))]
        self._known[service] = own
        return own

    def _stays(self, administration: Administration, uid: str, alive: Collection[str]) -> bool:
        return uid in alive or (administration.service_uid + uid) in self._foreign

    def _forget_foreign(self, listed: Collection[str], lost: tuple[Lost, ...]) -> None:
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
                f"{where} refuses the administrator: put admin.username and admin.password of one"
                " who may make realms into the Secret that spec.keycloak.credentialsSecret names"
            )
        token = answer.document().get("access_token")
        if answer.status != 200 or not isinstance(token, str):
            raise Unanswered(f"{where} answers with status {answer.status} and no token")
        return token


class _Keeping:
    """One pass, with the token of that."""

    def __init__(self, call: Call, administration: Administration, token: str) -> None:
        self._call = call
        self._administration = administration
        self._token = token

    async def realms(self) -> dict[str, str]:
        """Return the names of all realms by their ids."""
        answer = await self._ask("GET", "?briefRepresentation=true", good=(200,))
        return {str(one.get("id")): str(one.get("realm")) for one in answer.members()}

    async def is_to_go(self, name: str, lost: tuple[Lost, ...]) -> bool:
        """Whether a realm whose space is not there is ours, and the space was there once as far as
        the store can know."""
        answer = await self._ask("GET", _path(name), good=(200, 404))
        found = answer.document().get("attributes")
        attributes = found if isinstance(found, dict) else {}
        is_ours = attributes.get(MARK) == self._administration.service_uid
        return is_ours and not is_lost(attributes.get(CREATED), lost)

    async def remove(self, name: str) -> None:
        await self._ask("DELETE", _path(name), good=(204, 404))

    async def make(self, uid: str, name: str, created: str | None) -> bool:
        # 409: there is one by now, whoever made it; the next pass sees whose it is.
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
                f"{where} does not let the administrator {method} realms: give that user the role"
                " admin of the realm master"
            )
        if answer.status not in good:
            raise Unanswered(f"{where} answers {method} with status {answer.status}")
        return answer


def realm(
    administration: Administration, space_uid: str, name: str, created: str | None
) -> dict[str, Any]:
    """Return a new realm as a Keycloak takes it: a client whose tokens say groups, and no users;
    `created` is when the space was made."""
    mapper = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "access.token.claim": "true"},
    }
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
