"""Logins that the node cannot decide by its Plan: tokens and external authentication services.

The present AddressSpace and AuthenticationService determine the question. Positive answers of a
service are cached for a short time, so that many clients of one user cause one question; refusals
are never cached.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

import structlog

from enmasse.auth import external
from enmasse.auth.fetching import Fetch, fetch
from enmasse.auth.grants import Grant, Refused, Unanswered
from enmasse.auth.issuers import Issuer, TokenChecker, realm_of_keycloak
from enmasse.auth.realms import Administration, Realms, Spaces
from enmasse.auth.tokens import Expected
from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError
from enmasse.base.hosts import is_loopback
from enmasse.resources import AddressSpace, AuthenticationService, Key, MessagingUser, Secret
from enmasse.resources.authentication_service import KeycloakService, Oidc
from enmasse.store import Store
from enmasse.store.restored import RESTORED, lost

log = structlog.get_logger(__name__)

DECISION_TIMEOUT_S = 9.0
"""Time-out of a login decision; the node gives up after 10 s."""

REFRESH_TIMEOUT_S = 10.0
"""Maximum wait for the store before a realm sync."""

KEPT_S = 30.0
"""Cache time of an answer: a password changed in the service takes effect within this time."""

KEPT_MAX = 1000
"""Maximum cached answers; the oldest is evicted."""

CHECKERS_MAX = 256
"""Maximum issuers with cached keys; the least recently used is evicted."""


MASTER_REALM = "master"
"""The realm that every Keycloak has."""


class Question(NamedTuple):
    """The node's question about a peer. Never log one: `secret` is its password or token."""

    space: str
    """Full name of the address space, NAME.NAMESPACE."""

    service: str
    """The service, as in the Plan: namespace, name and uid come first."""

    mechanism: str
    user: str | None
    secret: str


@dataclass(frozen=True, slots=True)
class _Kept:
    grant: Grant
    until: float


class Logins:
    """Decides logins with the resources of a store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        fetching: Fetch = fetch,
        realms: Realms | None = None,
    ) -> None:
        """`fetching` sends requests to issuers; `realms` maintains those of a Keycloak."""
        self._store = store
        self._realms = realms or Realms()
        self._clock = clock
        self._fetch = fetching
        self._checkers: OrderedDict[tuple[Issuer, str], TokenChecker] = OrderedDict()
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._salt = secrets.token_bytes(32)

    async def answer(self, login: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a login in the node's format; see `_native.pyi`."""
        question = Question(*(login[name] for name in Question._fields))
        try:
            async with asyncio.timeout(DECISION_TIMEOUT_S):
                grant = await self.decide(question)
                self._check_known(question, grant)
        except Refused as refused:
            return {"id": login["id"], "refused": str(refused)}
        except Unanswered as unanswered:
            return {"id": login["id"], "unavailable": str(unanswered)}
        except TimeoutError:
            return {"id": login["id"], "unavailable": f"no answer in {DECISION_TIMEOUT_S:g} s"}
        except Exception as error:
            # An internal error must not leave the peer waiting. Its text could contain the secret.
            log.error("login failed: internal error", error=type(error).__name__)
            return {"id": login["id"], "unavailable": "internal error, see the log"}
        expires = grant.expires
        return {
            "id": login["id"],
            "user": grant.user,
            "rights": [right.document() for right in grant.rights],
            "expiresMs": int(expires.timestamp() * 1000) if expires else None,
            "renewable": grant.renewable,
        }

    def _check_known(self, question: Question, grant: Grant) -> None:
        """Check that a token belongs to an identity with rights in the space.

        An issuer signs tokens for every account; without this check, one without rights could hold
        a connection and its memory.

        Raises: Refused if it has no rights.
        """
        if question.mechanism == "PLAIN" or grant.rights:
            return
        name, _, namespace = question.space.partition(".")
        users = self._store.list("MessagingUser", namespace)
        names = (
            one.spec.username
            for one in users
            if isinstance(one, MessagingUser) and one.space == name
        )
        if grant.user in names:
            return
        raise Refused(
            f"the token is valid, but {grant.user!r} is not a MessagingUser of"
            " the space and its groups grant no right"
        )

    async def decide(self, question: Question) -> Grant:
        """Return the identity of the peer.

        Raises: Refused if the login is refused; Unanswered if that is unknown.
        """
        space, service = self._found(question)
        spec = service.spec
        if spec.external is not None:
            server, recheck_s = self._server(space, service), spec.external.recheck_seconds
            return await self._cached(
                space, question, lambda: self._ask_external(server, question, recheck_s)
            )
        uids = service.metadata.uid or "", space.metadata.uid or ""
        if service.keeps_realms and not self._realms.has(*uids):
            raise Unanswered(f"realm {space.own_realm} does not belong to this space yet")
        # A space that was created again has another realm of the same name, with other keys.
        owner = uids[1] if service.keeps_realms else ""
        checker = self._checker(self._issuer(space, service), owner)
        if question.mechanism != "PLAIN":
            return await checker.token(question.secret, question.user)
        user, password = question.user or "", question.secret
        return await self._cached(space, question, lambda: checker.password(user, password))

    async def _ask_external(
        self, server: external.Server, question: Question, recheck_s: int
    ) -> Grant:
        grant = await external.ask(server, question.mechanism, question.user, question.secret)
        end = self._clock.now() + timedelta(seconds=recheck_s)
        return replace(grant, expires=end, renewable=True)

    async def problem(self, service: AuthenticationService) -> str | None:
        """Return why a service is unavailable; None if it responds and, for a token issuer, its
        keys could be fetched. For a Keycloak with a realm per space this checks `master`, and
        synchronises realms that we manage.
        """
        try:
            async with asyncio.timeout(DECISION_TIMEOUT_S):
                if service.spec.type == "external":
                    await external.reach(self._server(None, service))
                else:
                    await TokenChecker(
                        self._issuer(None, service), self._fetch, self._clock
                    ).check_keys()
            if service.keeps_realms:
                await self._keep_realms(service)
        except (Refused, Unanswered) as error:
            return str(error)
        except TimeoutError:
            return f"no answer in {DECISION_TIMEOUT_S:g} s"
        except ValueError as error:  # raised by the resolver for a malformed name
            return f"cannot resolve or reach its host: {error}; correct the host"
        except Exception as error:
            # An internal error must not stop other tasks.
            log.exception(
                "query of authentication service failed: internal error", error=type(error).__name__
            )
            return "it cannot be queried: internal error, see the log"
        return None

    async def _keep_realms(self, service: AuthenticationService) -> None:
        keycloak, namespace = service.spec.keycloak, service.metadata.namespace
        assert keycloak is not None
        ca, secret = keycloak.ca_cert_secret, keycloak.client_secret
        administrator = keycloak.credentials_secret
        administration = Administration(
            url=keycloak.url.rstrip("/"),
            service_uid=service.metadata.uid or "",
            user=self._text(administrator, namespace, "admin.username"),
            password=self._text(administrator, namespace, "admin.password"),
            client_id=keycloak.client_id,
            client_secret=self._text(secret, namespace, "client-secret") if secret else None,
            ca=self._text(ca, namespace, "ca.crt") if ca else None,
        )

        async def list_spaces() -> Spaces:
            # A leader without contact to the store does not know spaces that another process
            # created.
            try:
                async with asyncio.timeout(REFRESH_TIMEOUT_S):
                    await self._store.refresh()
            except (EnMasseError, TimeoutError) as error:
                why = str(error) or "no answer"
                raise Unanswered(f"realm sync paused: cannot list address spaces: {why}") from None
            spaces = [
                one for one in self._store.list("AddressSpace") if isinstance(one, AddressSpace)
            ]
            own = [one for one in spaces if one.service_name == service.metadata.name]
            try:
                times = lost(self._store.get(RESTORED))
            except ValueError as error:
                raise Unanswered(f"realms wait: {error}") from None
            return Spaces(
                wanted={one.metadata.uid or "": one.own_realm for one in own},
                alive={one.metadata.uid or "" for one in spaces},
                created={
                    one.metadata.uid or "": one.metadata.creation_timestamp or "" for one in own
                },
                lost=times,
            )

        await self._realms.keep(administration, list_spaces)

    def _found(self, question: Question) -> tuple[AddressSpace, AuthenticationService]:
        name, _, namespace = question.space.partition(".")
        space = self._store.get(Key("AddressSpace", namespace, name))
        namespace, name, uid, *_ = question.service.split("/")
        service = self._store.get(Key("AuthenticationService", namespace, name))
        if not isinstance(space, AddressSpace) or not isinstance(service, AuthenticationService):
            raise Unanswered(f"the authentication service {name} or the space no longer exists")
        if service.metadata.uid != uid:
            raise Unanswered(f"the authentication service {name} has been replaced")
        return space, service

    async def _cached(
        self, space: AddressSpace, question: Question, ask: Callable[[], Awaitable[Grant]]
    ) -> Grant:
        """Return the cached answer to the same question about a space, or ask."""
        asked = "\0".join(map(str, (space.metadata.uid, *question)))
        key = hashlib.blake2b(asked.encode(), key=self._salt).digest()
        now = self._clock.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept.until > now:
            return kept.grant
        self._kept.pop(key, None)
        grant = await ask()
        self._kept[key] = _Kept(grant, self._clock.monotonic() + self._kept_s(grant))
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return grant

    def _kept_s(self, grant: Grant) -> float:
        """Return how long an answer may be shared: until the node renews it, after half of its
        validity.
        """
        if grant.expires is None:
            return KEPT_S
        return min(KEPT_S, (grant.expires - self._clock.now()).total_seconds() / 2)

    def _checker(self, issuer: Issuer, owner: str) -> TokenChecker:
        """Return the checker of an issuer; `owner`: the issuer belongs to that space."""
        key = issuer, owner
        if key not in self._checkers:
            self._checkers[key] = TokenChecker(issuer, self._fetch, self._clock)
        self._checkers.move_to_end(key)
        while len(self._checkers) > CHECKERS_MAX:
            self._checkers.popitem(last=False)
        return self._checkers[key]

    def _issuer(self, space: AddressSpace | None, service: AuthenticationService) -> Issuer:
        spec, namespace = service.spec, service.metadata.namespace
        if spec.keycloak is not None:
            return self._keycloak(space, spec.keycloak, spec.realm, namespace)
        if spec.standard is None or spec.standard.oidc is None:
            raise Refused("the authentication service has no token issuer")
        oidc: Oidc = spec.standard.oidc
        full_name = f"{space.metadata.name}.{space.metadata.namespace}" if space else None
        expected = Expected(
            issuer=oidc.issuer,
            audience=oidc.audience or full_name,
            user_claim=oidc.user_claim,
            groups_claim=oidc.groups_claim,
            algorithms=oidc.algorithms,
        )
        reference = oidc.ca_cert_secret
        ca = self._text(reference, namespace, "ca.crt") if reference else None
        return Issuer(expected, oidc.jwks_uri, ca)

    def _keycloak(
        self,
        space: AddressSpace | None,
        keycloak: KeycloakService,
        realm: str | None,
        namespace: str,
    ) -> Issuer:
        own_realm = space.own_realm if space else MASTER_REALM
        ca, secret = keycloak.ca_cert_secret, keycloak.client_secret
        return realm_of_keycloak(
            keycloak.url,
            realm or own_realm,
            audience=keycloak.audience,
            client_id=keycloak.client_id,
            client_secret=self._text(secret, namespace, "client-secret") if secret else None,
            ca=self._text(ca, namespace, "ca.crt") if ca else None,
        )

    def _server(
        self, space: AddressSpace | None, service: AuthenticationService
    ) -> external.Server:
        own = service.spec.external
        if own is None:
            raise Refused("the authentication service has no host and port")
        # Settings of the space come before those of the service, if the service allows that.
        given = space.overrides if space and own.allow_override else None
        host = (given and given.host) or own.host

        def text(reference: str, name: str) -> str | None:
            """Return a value of a Secret that the space references, else of one that the service
            references.
            """
            if space and given and (found := getattr(given, reference)) is not None:
                return self._text(found, space.metadata.namespace, name)
            found = getattr(own, reference)
            return self._text(found, service.metadata.namespace, name) if found else None

        ca = text("ca_cert_secret", "ca.crt")
        own_realm = space.own_realm if space else ""
        return external.Server(
            host=host,
            port=(given and given.port) or own.port,
            realm=(given and given.realm) or service.spec.realm or own_realm,
            secure=ca is not None or not is_loopback(host),
            ca=ca,
            certificate=text("client_cert_secret", "tls.crt"),
            key=text("client_cert_secret", "tls.key"),
        )

    def _text(self, reference: Any, namespace: str, name: str) -> str:
        """Return a value of a Secret.

        Raises: Unanswered if it does not exist.
        """
        where = getattr(reference, "namespace", None) or namespace
        secret = self._store.get(Key("Secret", where, reference.name or ""))
        text = secret.text(name) if isinstance(secret, Secret) else None
        if text is None:
            raise Unanswered(f"Secret {reference.name!r} with {name} not found in {where!r}")
        return text
