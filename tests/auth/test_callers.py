"""The caller that an API token identifies."""

from base64 import b64encode
from datetime import timedelta

import pytest

from doubles import TestClock
from enmasse.auth.callers import Callers
from enmasse.auth.roles import OWNER
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Invalid
from enmasse.resources import Key
from enmasse.resources.api_token import TOKENS_NAMESPACE
from enmasse.store import MemoryStore
from tokens import token_secret

OWN = "the-token"
TOKEN = "ci.north.random"


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def store(clock: TestClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def callers(store: MemoryStore, clock: TestClock) -> Callers:
    return Callers(store, OWN, clock)


async def test_bearer_is_found_by_the_digest_of_its_token(
    store: MemoryStore, callers: Callers
) -> None:
    await store.put([token_secret(TOKEN, tenant_edit="a, b", tenant_view="*")])
    found = callers.bearer(f"Bearer {TOKEN}")
    assert found is not None
    assert (found.name, found.is_owner) == ("ci.north", False)
    assert found.roles == {"tenant-edit": {"a", "b"}, "tenant-view": {"*"}}
    owner = callers.bearer(f"bearer {OWN}")
    assert owner is not None
    assert owner.name == OWNER


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer ci.north.", "Bearer ci.north"),
        *(
            "Bearer ci.north.Random",
            "Bearer other.random",
            "Bearer .random",
            "Bearer \u00fc.\u00fc",
        ),
        f"Bearer {TOKEN}x",
    ],
)
async def test_malformed_or_unknown_authorization_header_has_no_caller(
    store: MemoryStore, callers: Callers, header: str
) -> None:
    await store.put([token_secret(TOKEN, tenant_edit="a")])
    assert callers.bearer(header) is None


async def test_stored_digest_is_not_accepted_as_a_token(
    store: MemoryStore, callers: Callers
) -> None:
    secret = token_secret(TOKEN)
    await store.put([secret])
    assert callers.bearer(f"Bearer ci.north.{secret.text('sha256')}") is None
    assert callers.bearer(f"Bearer {secret.text('sha256')}") is None


async def test_token_is_valid_until_it_expires_or_its_secret_is_deleted(
    store: MemoryStore, callers: Callers, clock: TestClock
) -> None:
    ends = rfc3339(clock.now() + timedelta(hours=1))
    await store.put([token_secret(TOKEN, expires=ends), token_secret("b.x", tenant_view="a")])
    clock.advance(3599)
    assert callers.bearer(f"Bearer {TOKEN}") is not None
    clock.advance(1)
    assert callers.bearer(f"Bearer {TOKEN}") is None
    await store.put([token_secret("b.x", tenant_edit="a")])
    changed = callers.bearer("Bearer b.x")
    assert changed is not None
    assert changed.roles == {"tenant-edit": {"a"}}
    await store.delete([Key("Secret", TOKENS_NAMESPACE, "b")])
    assert callers.bearer("Bearer b.x") is None


@pytest.mark.parametrize(
    "texts", [{"tenant-edit": "A"}, {"tenant-own": "a"}, {"expires": "tomorrow"}]
)
async def test_token_secret_that_admission_would_refuse_is_not_accepted(
    store: MemoryStore, callers: Callers, texts: dict[str, str]
) -> None:
    secret = token_secret(TOKEN, tenant_edit="a")
    data = secret.data | {name: b64encode(text.encode()).decode() for name, text in texts.items()}
    await store.put([secret.model_copy(update={"data": data})])
    assert callers.bearer(f"Bearer {TOKEN}") is None


@pytest.mark.parametrize(
    ("texts", "field"),
    [
        ({"sha256": "abc"}, "data.sha256"),
        ({"tenant_edit": "A"}, "data.tenant-edit"),
        ({"tenant_own": "a"}, "data.tenant-own"),
        ({"expires": "tomorrow"}, "data.expires"),
        ({"expires": "2027-01-31T08:00:00"}, "data.expires"),
        ({"namespace": "shop"}, "metadata.namespace"),
    ],
)
def test_invalid_token_secret_is_rejected_naming_the_field(
    texts: dict[str, str], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        token_secret(TOKEN, **texts)
    assert [one.field for one in refused.value.faults] == [field]
