"""Certificates of address spaces: authorities, renewal and reported conditions."""

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
from enmasse.engines import ServerCertificate, UnusableCertificate
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
    """The certificate that a space presents for one of its names."""
    uid = platform.space(key).metadata.uid or ""
    [found] = [one for one in platform.engine.shown[uid] if name in one.names]
    return found


def chain_of(one: ServerCertificate) -> list[Certificate]:
    return x509.load_pem_x509_certificates(one.chain.encode())


def trusted(platform: Platform, key: Key = SHOP) -> list[Certificate]:
    """The authorities that a space publishes to its clients."""
    pem = base64.b64decode(platform.space(key).status.ca_cert or "")
    return x509.load_pem_x509_certificates(pem)


def verified(platform: Platform, name: str, roots: Iterable[Certificate], key: Key = SHOP) -> bool:
    """Whether a client that trusts only `roots` accepts the certificate of a space for a name."""
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
    """A chain and a key as a tenant supplies them."""
    now = platform.clock.now() + timedelta(days=begins_days)
    signer = authority or signing.new_authority("the tenant's", now)
    key = signing.new_key()
    leaf = signing.issue(signer, key, "a shop", names, now)
    return signing.chain_pem([leaf, signer.certificate]), signing.key_pem(key)


def space_with_tenant_certificate(host: str | None = TENANT, **cert: str) -> dict[str, object]:
    """A space with a certificate of the tenant."""
    expose = {"expose": route(host)} if host else {}
    return space(endpoints=[endpoint(cert={"provider": "certBundle"} | cert, **expose)])


async def test_each_space_has_an_authority_of_its_own(platform: Platform) -> None:
    await platform.apply(space(), space("other"))
    other = Key("AddressSpace", "default", "other")
    for name in ("shop", "shop.default"):
        assert verified(platform, name, trusted(platform))
        assert not verified(platform, name, trusted(platform, other))
        # A client that trusts the node trusts all its spaces.
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


async def test_restart_keeps_authorities_of_spaces_and_deletes_orphaned_ones(
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

    # A deletion while the manager is stopped counts too; a recreated space is another one.
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


async def test_certificate_is_renewed_after_two_thirds_of_its_lifetime(platform: Platform) -> None:
    await platform.apply(space())
    first, authority = shown(platform, "shop.default"), trusted(platform)
    await platform.pass_days(264)
    assert shown(platform, "shop.default") == first
    await platform.pass_days(1)
    assert shown(platform, "shop.default") != first
    assert trusted(platform) == authority and verified(platform, "shop.default", authority)


async def test_certificate_from_a_clock_that_ran_ahead_is_reissued(
    platform: Platform,
) -> None:
    await platform.apply(space())
    await platform.pass_days(300)
    ahead = shown(platform, "shop.default")
    await platform.pass_days(-100)
    assert shown(platform, "shop.default") != ahead
    assert verified(platform, "shop.default", trusted(platform))


async def test_successor_authority_is_published_before_it_signs(
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

    # A restart keeps the successor.
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


async def test_authority_that_expired_while_stopped_is_replaced_at_start(
    platform: Platform,
) -> None:
    await platform.apply(space())
    [first] = trusted(platform)
    platform.clock.advance(4000 * 86_400)
    platform.identity = node_identity(platform.clock.now(), "mq.example.com")
    platform.start()
    await platform.settle()
    assert first not in trusted(platform)
    assert verified(platform, "shop.default", trusted(platform))


async def test_tenant_certificate_is_presented_for_the_names_that_it_contains(
    platform: Platform,
) -> None:
    chain, key = tenants(platform, TENANT, "shop.default")
    await platform.apply(space_with_tenant_certificate(tlsCert=text(chain), tlsKey=text(key)))
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

    # A renewal is a write of the Secret; it takes effect at once, until it expires.
    chain, key = tenants(platform, "*.example.com")
    await platform.apply(secret("shop-messaging-cert", chain, key))
    assert shown(platform, TENANT).chain == chain
    assert verified(platform, "shop.default", trusted(platform)[:1])
    await platform.pass_days(398)
    assert shown(platform, TENANT).chain != chain
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotUsable")
    assert "expired on 2027-12-02; renew it" in said.message


async def test_unusable_tenant_certificate_is_reported_and_replaced_by_own_one(
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
        await platform.apply(
            secret("own", one, its_key), space_with_tenant_certificate(secretName="own")
        )
        said = platform.condition("CertificateProvided")
        assert said and (said.status, said.reason) == ("False", reason), words
        assert words in said.message and "signed by the CA of the space is used" in said.message
        assert "PRIVATE" not in said.message
        assert verified(platform, TENANT, trusted(platform)[:1])
        assert platform.space().status.is_ready
    # The certificate is presented once it is valid, without a further change.
    await platform.pass_days(3)
    said = platform.condition("CertificateProvided")
    assert said and said.status == "True" and shown(platform, TENANT).chain == later[0]

    # A certificate of an endpoint without a host is for the names of the space.
    await platform.apply(space_with_tenant_certificate(None, secretName="own"))
    said = platform.condition("CertificateProvided")
    assert (
        said
        and said.reason == "NotNamed"
        and "issue one that contains shop.default" in said.message
    )
    await platform.apply(space_with_tenant_certificate(None, secretName="absent"))
    said = platform.condition("CertificateProvided")
    assert said and "Secret absent has no tls.crt" in said.message


async def test_published_authorities_are_bounded_and_the_excess_is_reported(
    platform: Platform,
) -> None:
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


async def test_certificate_that_the_engine_refuses_is_reported(platform: Platform) -> None:
    chain, key = tenants(platform, TENANT)
    platform.engine.not_shown[chain] = "its key is of a kind that nobody knows"
    await platform.apply(
        space_with_tenant_certificate(tlsCert=text(chain), tlsKey=text(key)), space("other")
    )
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotUsable")
    assert "of a kind that nobody knows" in said.message
    assert verified(platform, TENANT, trusted(platform))
    said = platform.condition("CertificateProvided", Key("AddressSpace", "default", "other"))
    assert said and said.status == "True"


async def test_own_certificate_is_presented_when_the_engine_refuses_all_others(
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
    """An engine that runs a callback during its next activation of certificates."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[UnusableCertificate]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().show_certificates(spaces)


async def test_secret_changed_during_activation_takes_effect() -> None:
    engine = Slow()
    platform = Platform(engine)
    platform.engine = engine
    old, new = tenants(platform, TENANT), tenants(platform, TENANT)
    await platform.apply(secret("own", *old))
    engine.meanwhile = lambda: platform.admission.apply([parse(secret("own", *new))])
    await platform.apply(space_with_tenant_certificate(secretName="own"))
    assert engine.meanwhile is None and shown(platform, TENANT).chain == new[0]


async def test_node_certificate_is_presented_for_hosts_that_it_names(
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

    # The certificate of the operator applies only where the tenant makes no choice.
    await platform.apply(space(endpoints=[endpoint(expose=route())]))
    assert [one.names for one in platform.engine.shown[uid]] == [("shop", "shop.default")]
    own = {"provider": "selfsigned"}
    await platform.apply(space(endpoints=[endpoint(expose=route(), cert=own)]))
    assert verified(platform, TENANT, trusted(platform))
    await platform.apply(space(endpoints=[endpoint(cert={"provider": "openshift"})]))
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotServed")


@pytest.mark.parametrize("spoilt_key", ["nonsense", ENCRYPTED_KEY])
async def test_unreadable_authority_affects_one_space_and_is_not_replaced(
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


async def test_failed_certificate_activation_does_not_delay_the_plan(platform: Platform) -> None:
    platform.engine.show_refusals = [Unavailable(Code.NOT_AVAILABLE, "not now")]
    with pytest.raises(Unavailable, match="not now"):
        await platform.apply(space())
    assert [one.names[0] for one in platform.engine.plan.spaces] == ["shop"]
    assert platform.space().status.is_ready
    await platform.settle()
    assert verified(platform, "shop.default", trusted(platform))


async def test_certificate_failure_of_one_space_affects_no_other_space(
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


async def test_unusable_ca_key_of_the_node_is_reported_and_spaces_are_ready() -> None:
    identity = replace(node_identity(NOVEMBER, HOST), authority_key=ENCRYPTED_KEY)
    platform = Platform(identity=identity)
    await platform.apply(space())
    said = platform.condition("CertificateProvided")
    assert said and (said.status, said.reason) == ("False", "NotShown")
    assert "tls/ca.key" in said.message and ENCRYPTED_KEY not in said.message
    assert platform.space().status.is_ready


async def test_full_disk_is_reported_only_for_the_affected_spaces(platform: Platform) -> None:
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
async def test_spaces_never_present_certificates_of_other_spaces(seed: int) -> None:
    """After any sequence of changes, each certificate of a space is signed by its own authority or
    supplied by its own tenant."""
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
