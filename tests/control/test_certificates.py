"""Certificates of address spaces: whose they are, when they are made anew, and what is said."""

import base64
import errno
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from enmasse.auth import authority as signing
from enmasse.auth.authority import Authority, Certificate
from enmasse.base.errors import Code, Unavailable
from enmasse.control.reconcilers.certificates import AUTHORITY_OF
from enmasse.engines import ServerCertificate, Unshown
from enmasse.plan import names_of
from enmasse.resources import AddressSpace, ConfigMap, Key, parse
from enmasse.resources.model import INFRA_NAMESPACE
from fake_engine import FakeEngine, node_identity
from stepped_manager import HOST, NOVEMBER, SHOP, Platform, endpoint, route, secret, space, text

TENANT = "shop.example.com"
ENCRYPTED_KEY = (
    signing.new_key()
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    .decode()
)


@pytest.fixture
def platform() -> Platform:
    return Platform()


def shown(platform: Platform, name: str, key: Key = SHOP) -> ServerCertificate:
    """What a space shows for one of its names."""
    uid = platform.space(key).metadata.uid or ""
    [found] = [one for one in platform.engine.shown[uid] if name in one.names]
    return found


def chain_of(one: ServerCertificate) -> list[Certificate]:
    return x509.load_pem_x509_certificates(one.chain.encode())


def trusted(platform: Platform, key: Key = SHOP) -> list[Certificate]:
    """Whom clients of a space are told to trust."""
    pem = base64.b64decode(platform.space(key).status.ca_cert or "")
    return x509.load_pem_x509_certificates(pem)


def verified(platform: Platform, name: str, roots: Iterable[Certificate], key: Key = SHOP) -> bool:
    """Whether a client that trusts `roots` alone accepts what a space shows for a name."""
    leaf, *rest = chain_of(shown(platform, name, key))
    builder = x509.verification.PolicyBuilder().store(x509.verification.Store(list(roots)))
    verifier = builder.time(platform.clock.now()).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(leaf, rest)
    except x509.verification.VerificationError:
        return False
    return True


def tenants(
    platform: Platform, *names: str, begins_days: float = 0, authority: Authority | None = None
) -> tuple[str, str]:
    """A chain and a key as a tenant brings them."""
    now = platform.clock.now() + timedelta(days=begins_days)
    signer = authority or signing.new_authority("the tenant's", now)
    key = signing.new_key()
    leaf = signing.issue(signer, key, "a shop", names, now)
    return signing.chain_pem([leaf, signer.certificate]), signing.key_pem(key)


def with_bundle(host: str | None = TENANT, **cert: str) -> dict[str, object]:
    """A space with a certificate of the tenant's."""
    expose = {"expose": route(host)} if host else {}
    return space(endpoints=[endpoint(cert={"provider": "certBundle"} | cert, **expose)])


async def test_each_space_has_an_authority_of_its_own(platform: Platform) -> None:
    await platform.apply(space(), space("other"))
    other = Key("AddressSpace", "default", "other")
    for name in ("shop", "shop.default"):
        assert verified(platform, name, trusted(platform))
        assert not verified(platform, name, trusted(platform, other))
        # Who trusts the node trusts all its spaces.
        node = x509.load_pem_x509_certificate(platform.identity.authority.encode())
        assert verified(platform, name, [node])
    assert not verified(platform, "other.default", trusted(platform), other)
    kept = platform.secret("shop.default.ca", INFRA_NAMESPACE)
    assert kept.metadata.labels == {AUTHORITY_OF: platform.space().metadata.uid}
    assert sorted(kept.data) == ["ca.crt", "ca.key"]
    key = kept.text("ca.key") or ""
    others = [one for one in platform.store.list() if one.key != kept.key]
    assert "PRIVATE" in key and not any(key in str(one.document()) for one in others)
    assert key not in repr(platform.engine.shown)
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("True", "Served")


async def test_a_start_keeps_authorities_and_what_has_gone_takes_its_own_along(
    platform: Platform,
) -> None:
    await platform.apply(space(), space("other"))
    first, certificate = trusted(platform), shown(platform, "shop.default")
    platform.start()
    await platform.settle()
    assert trusted(platform) == first
    assert shown(platform, "shop.default") != certificate
    uid = platform.space().metadata.uid or ""
    await platform.admission.delete(SHOP)
    await platform.settle()
    assert platform.engine.shown[uid] == ()
    assert platform.store.get(Key("Secret", INFRA_NAMESPACE, "shop.default.ca")) is None

    # Also if nobody saw it go; a space of the same name is another one.
    await platform.apply(space())
    second = trusted(platform)
    assert second != first
    await platform.admission.delete(SHOP)
    await platform.admission.apply([AddressSpace.model_validate(space())])
    platform.start()
    await platform.settle()
    assert not set(trusted(platform)) & {*first, *second}
    await platform.admission.delete(SHOP)
    platform.start()
    await platform.settle()
    assert [one.key.name for one in platform.store.list("Secret")] == ["other.default.ca"]


async def test_a_certificate_is_made_anew_after_two_thirds_of_its_life(platform: Platform) -> None:
    await platform.apply(space())
    first, authority = shown(platform, "shop.default"), trusted(platform)
    await platform.pass_days(264)
    assert shown(platform, "shop.default") == first
    await platform.pass_days(1)
    assert shown(platform, "shop.default") != first
    assert trusted(platform) == authority and verified(platform, "shop.default", authority)


async def test_one_that_was_made_by_a_clock_that_went_ahead_is_made_anew(
    platform: Platform,
) -> None:
    await platform.apply(space())
    await platform.pass_days(300)
    ahead = shown(platform, "shop.default")
    await platform.pass_days(-100)
    assert shown(platform, "shop.default") != ahead
    assert verified(platform, "shop.default", trusted(platform))


async def test_an_authority_has_a_successor_that_clients_are_told_of_before_it_signs(
    platform: Platform,
) -> None:
    exports = [{"kind": "ConfigMap", "name": "where"}]
    await platform.apply(space(endpoints=[endpoint(exports=exports)]))
    [first] = trusted(platform)
    for _ in range(16):
        await platform.pass_days(200)
        assert trusted(platform) == [first]
        assert verified(platform, "shop.default", [first])
    await platform.pass_days(86)
    before, after = trusted(platform)
    assert before == first and not verified(platform, "shop.default", [after])
    where = platform.store.get(Key("ConfigMap", "default", "where"))
    assert isinstance(where, ConfigMap)
    assert x509.load_pem_x509_certificates(where.data["ca.crt"].encode()) == [before, after]
    said = platform.condition("CertificateProvided")
    assert said and "its successor signs from 2035-11-" in said.message

    # A start in between forgets nothing.
    platform.start()
    await platform.pass_days(29)
    assert verified(platform, "shop.default", [before])
    await platform.pass_days(1)
    assert trusted(platform) == [after, before]
    assert verified(platform, "shop.default", [after])
    assert not verified(platform, "shop.default", [before])
    assert "next.key" not in platform.secret("shop.default.ca", INFRA_NAMESPACE).data
    await platform.pass_days(400)
    assert trusted(platform) == [after] and verified(platform, "shop.default", [after])


async def test_an_authority_that_ended_unseen_is_replaced_at_once(platform: Platform) -> None:
    await platform.apply(space())
    [first] = trusted(platform)
    platform.clock.advance(4000 * 86_400)
    platform.identity = node_identity(platform.clock.now(), "mq.example.com")
    platform.start()
    await platform.settle()
    assert first not in trusted(platform)
    assert verified(platform, "shop.default", trusted(platform))


async def test_a_tenants_own_is_shown_for_the_names_that_it_has(platform: Platform) -> None:
    chain, key = tenants(platform, TENANT, "shop.default")
    await platform.apply(with_bundle(tlsCert=text(chain), tlsKey=text(key)))
    assert shown(platform, TENANT).chain == chain
    assert shown(platform, "shop.default").chain == chain
    assert shown(platform, "shop").chain != chain
    for name in (TENANT, "shop.default", "shop"):
        assert verified(platform, name, trusted(platform))
    said = platform.condition("CertificateProvided")
    assert said and said.status == "True"
    assert "the tenant's certificate for shop.example.com, shop.default" in said.message
    [served, other] = platform.space().status.endpoint_statuses or ()
    assert base64.b64decode(served.cert or "").decode() == chain
    assert other.cert == platform.space().status.ca_cert

    # Whoever renews it writes the Secret; it counts at once, and when it has ended it does not.
    chain, key = tenants(platform, "*.example.com")
    await platform.apply(secret("shop-messaging-cert", chain, key))
    assert shown(platform, TENANT).chain == chain
    assert verified(platform, "shop.default", trusted(platform)[:1])
    await platform.pass_days(398)
    assert shown(platform, TENANT).chain != chain
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotUsable")
    assert "expired on 2027-12-02; renew it" in said.message


async def test_a_tenants_own_that_cannot_be_shown_is_said_and_the_spaces_is(
    platform: Platform,
) -> None:
    chain, key = tenants(platform, TENANT)
    foreign, _ = tenants(platform, TENANT)
    elsewhere = tenants(platform, "shop.example.net")
    later = tenants(platform, TENANT, begins_days=3)
    client = chain.replace("\n", "\n ", 3)
    unordered = chain.split("-----END CERTIFICATE-----\n")[0] + "-----END CERTIFICATE-----\n"
    for one, its_key, reason, words in (
        ("", key, "NotUsable", "has no tls.crt and tls.key"),
        ("nonsense", key, "NotUsable", "not a PEM certificate"),
        (client, "nonsense", "NotUsable", "tls.key that is not an unencrypted PEM key"),
        (foreign, key, "NotUsable", "does not belong to the first certificate"),
        (unordered + foreign, key, "NotUsable", "not signed by the next"),
        (*elsewhere, "NotNamed", "does not name shop.example.com; replace it with one that does"),
        (*later, "NotUsable", "not valid before 2026-11-0"),
    ):
        await platform.apply(secret("own", one, its_key), with_bundle(secretName="own"))
        said = platform.condition("CertificateProvided")
        assert said and (said.status, said.reason) == ("False", reason), words
        assert words in said.message and "signed by the CA of the space is used" in said.message
        assert "PRIVATE" not in said.message
        assert verified(platform, TENANT, trusted(platform)[:1])
        assert platform.space().status.is_ready
    # Once it holds it is shown, with nobody saying anything anew.
    await platform.pass_days(3)
    said = platform.condition("CertificateProvided")
    assert said and said.status == "True" and shown(platform, TENANT).chain == later[0]

    # One without a host of its own is for the names of the space.
    await platform.apply(with_bundle(None, secretName="own"))
    said = platform.condition("CertificateProvided")
    assert (
        said
        and said.reason == "NotNamed"
        and "issue one that contains shop.default" in said.message
    )
    await platform.apply(with_bundle(None, secretName="absent"))
    said = platform.condition("CertificateProvided")
    assert said and "Secret absent has no tls.crt" in said.message


async def test_clients_are_told_of_so_many_authorities_and_no_more(platform: Platform) -> None:
    endpoints, secrets = [], []
    for number in range(30):
        name, host = f"own-{number}", f"shop-{number}.example.com"
        secrets.append(secret(name, *tenants(platform, host)))
        cert = {"provider": "certBundle", "secretName": name}
        exports = [{"kind": "ConfigMap", "name": name}]
        endpoints.append(endpoint(name, cert=cert, expose=route(host), exports=exports))
    await platform.apply(*secrets[:10], space(endpoints=endpoints[:10]))
    assert len(trusted(platform)) == 11
    await platform.apply(*secrets, space(endpoints=endpoints))
    assert len(trusted(platform)) == 1
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotTold")
    assert "exceed 16384 characters" in said.message
    own = secrets[-1]["stringData"]["tls.crt"]
    assert shown(platform, "shop-29.example.com").chain == own


async def test_what_the_engine_does_not_take_is_said(platform: Platform) -> None:
    chain, key = tenants(platform, TENANT)
    platform.engine.not_shown[chain] = "its key is of a kind that nobody knows"
    await platform.apply(with_bundle(tlsCert=text(chain), tlsKey=text(key)), space("other"))
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotUsable")
    assert "of a kind that nobody knows" in said.message
    assert verified(platform, TENANT, trusted(platform))
    said = platform.condition("CertificateProvided", Key("AddressSpace", "default", "other"))
    assert said and said.status == "True"


async def test_however_many_the_engine_does_not_take_the_spaces_own_is_shown(
    platform: Platform,
) -> None:
    endpoints, secrets = [], []
    for name in ("first", "second", "third"):
        chain, key = tenants(platform, "shop.default")
        platform.engine.not_shown[chain] = f"the {name} is not taken"
        secrets.append(secret(name, chain, key))
        endpoints.append(endpoint(name, cert={"provider": "certBundle", "secretName": name}))
    await platform.apply(*secrets, space(endpoints=endpoints))
    said = platform.condition("CertificateProvided")
    assert said and all(f"the {name} is not" in said.message for name in ("first", "third"))
    assert verified(platform, "shop.default", trusted(platform))


class Slow(FakeEngine):
    """One that takes its time once: what happens meanwhile."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[Unshown]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().show_certificates(spaces)


async def test_a_secret_that_changes_while_certificates_are_shown_counts() -> None:
    engine = Slow()
    platform = Platform(engine)
    platform.engine = engine
    old, new = tenants(platform, TENANT), tenants(platform, TENANT)
    await platform.apply(secret("own", *old))
    engine.meanwhile = lambda: platform.admission.apply([parse(secret("own", *new))])
    await platform.apply(with_bundle(secretName="own"))
    assert engine.meanwhile is None and shown(platform, TENANT).chain == new[0]


async def test_the_nodes_own_is_shown_where_it_is_asked_for_and_names_the_host(
    platform: Platform,
) -> None:
    def wildcard(host: str) -> dict[str, object]:
        return space(endpoints=[endpoint(cert={"provider": "wildcard"}, expose=route(host))])

    platform.identity = node_identity(platform.clock.now(), "*.example.com", is_own=True)
    platform.start()
    await platform.apply(wildcard(TENANT))
    uid = platform.space().metadata.uid or ""
    assert [one.names for one in platform.engine.shown[uid]] == [("shop", "shop.default")]
    said = platform.condition("CertificateProvided")
    assert (
        said
        and said.status == "True"
        and "the node's certificate for shop.example.com" in said.message
    )
    await platform.apply(wildcard("shop.example.net"))
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotNamed")
    assert verified(platform, "shop.example.net", trusted(platform))

    # What the operator brings counts where the tenant asks for nothing, and only there.
    await platform.apply(space(endpoints=[endpoint(expose=route())]))
    assert [one.names for one in platform.engine.shown[uid]] == [("shop", "shop.default")]
    own = {"provider": "selfsigned"}
    await platform.apply(space(endpoints=[endpoint(expose=route(), cert=own)]))
    assert verified(platform, TENANT, trusted(platform))
    await platform.apply(space(endpoints=[endpoint(cert={"provider": "openshift"})]))
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotServed")


@pytest.mark.parametrize("spoilt_key", ["nonsense", ENCRYPTED_KEY])
async def test_an_authority_that_cannot_be_read_harms_one_space_and_is_left_to_its_owner(
    platform: Platform, spoilt_key: str
) -> None:
    await platform.apply(space(), space("other"))
    kept = platform.secret("shop.default.ca", INFRA_NAMESPACE)
    spoilt = kept.data | {"ca.key": text(spoilt_key)}
    await platform.admission.replace(
        kept.model_copy(update={"data": spoilt}).with_metadata(resource_version=None)
    )
    await platform.settle()
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "AuthorityUnreadable")
    assert (
        spoilt_key not in said.message and "or delete it to have a new one created" in said.message
    )
    assert platform.secret("shop.default.ca", INFRA_NAMESPACE).data == spoilt
    other = Key("AddressSpace", "default", "other")
    assert verified(platform, "other.default", trusted(platform, other), other)
    await platform.admission.delete(kept.key)
    await platform.settle()
    assert verified(platform, "shop.default", trusted(platform))


async def test_what_cannot_be_shown_yet_keeps_nothing_from_being_served(platform: Platform) -> None:
    platform.engine.show_refusals = [Unavailable(Code.NOT_AVAILABLE, "not now")]
    with pytest.raises(Unavailable, match="not now"):
        await platform.apply(space())
    assert [one.names[0] for one in platform.engine.plan.spaces] == ["shop"]
    assert platform.space().status.is_ready
    await platform.settle()
    assert verified(platform, "shop.default", trusted(platform))


async def test_what_fails_for_one_space_is_said_there_and_harms_no_other(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue = signing.issue

    def issued(*what: Any) -> Certificate:
        if "shop" in what[3]:
            raise PermissionError(errno.EACCES, "Permission denied", "key")
        return issue(*what)

    with monkeypatch.context() as spoilt:
        spoilt.setattr(signing, "issue", issued)
        await platform.apply(space(), space("other"))
        other = Key("AddressSpace", "default", "other")
        assert verified(platform, "other.default", trusted(platform, other), other)
        said = platform.condition("CertificateProvided")
        assert said and (said.status, said.reason) == ("False", "NotShown")
        assert "Permission denied" in said.message and "restore it" in said.message
        assert platform.space().status.is_ready
    await platform.pass_days(1)
    assert verified(platform, "shop.default", trusted(platform))


async def test_a_key_of_the_node_that_cannot_be_used_is_said_and_all_is_served() -> None:
    identity = replace(node_identity(NOVEMBER, HOST), authority_key=ENCRYPTED_KEY)
    platform = Platform(identity=identity)
    await platform.apply(space())
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotShown")
    assert "tls/ca.key" in said.message and ENCRYPTED_KEY not in said.message
    assert platform.space().status.is_ready


async def test_a_full_disk_is_said_of_the_spaces_that_it_concerns(platform: Platform) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    await platform.apply(space("other"))
    platform.engine.show_refusals = [full]
    with pytest.raises(Unavailable, match="No space left on device"):
        await platform.apply(space())
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotShown")
    assert "No space left on device" in said.message and "this is retried" in said.message
    other = platform.condition("CertificateProvided", Key("AddressSpace", "default", "other"))
    assert other and other.status == "True"
    assert platform.space().status.is_ready
    await platform.settle()
    assert verified(platform, "shop.default", trusted(platform))
    said = platform.condition("CertificateProvided")
    assert said and said.status == "True"


@pytest.mark.parametrize("seed", range(3))
async def test_no_space_is_ever_told_to_show_what_another_space_has(seed: int) -> None:
    """Whatever is declared, deleted and declared again: all that a space shows is signed by its own
    authority or brought by its own tenant."""
    platform, drawn = Platform(), random.Random(seed)
    for _ in range(12):
        name = drawn.choice(["north", "south", "west"])
        key = Key("AddressSpace", "default", name)
        if platform.store.get(key) is not None and drawn.random() < 0.3:
            await platform.admission.delete(key)
        else:
            endpoints = []
            if drawn.random() < 0.7:
                host = f"{name}-{drawn.randrange(2)}.example.com"
                chain, tls_key = tenants(platform, host)
                cert = {"provider": "certBundle", "tlsCert": text(chain), "tlsKey": text(tls_key)}
                endpoints = [endpoint(cert=cert, expose=route(host))]
            await platform.apply(space(name, endpoints=endpoints))
        await platform.pass_days(drawn.choice([0, 10, 300]))
        spaces = [one for one in platform.store.list("AddressSpace")]
        for one in spaces:
            assert isinstance(one, AddressSpace)
            for name in names_of(one):
                accepting = [
                    other.key
                    for other in spaces
                    if verified(platform, name, trusted(platform, other.key), one.key)
                ]
                assert accepting == [one.key]
        uids = {one.metadata.uid for one in spaces}
        assert {uid for uid, some in platform.engine.shown.items() if some} == uids
