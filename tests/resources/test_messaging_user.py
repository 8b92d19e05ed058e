"""Secrets of users are stored and never shown."""

import pytest

from enmasse.base.errors import Invalid
from enmasse.resources import MessagingUser, Verifier, parse
from enmasse.resources.messaging_user import LAST_APPLIED, PATTERNS_MAX, WILDCARDS_MAX

VERIFIER = Verifier(
    mechanism="SCRAM-SHA-256", salt="c2FsdA==", iterations=4096, stored_key="a", server_key="b"
)


def alice(password: str = "c2VjcmV0") -> MessagingUser:
    user = parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "MessagingUser",
            "metadata": {
                "name": "shop.alice",
                "annotations": {LAST_APPLIED: f'{{"password": "{password}"}}', "team": "north"},
            },
            "spec": {
                "username": "alice",
                "authentication": {"type": "password", "password": password},
            },
        }
    )
    assert isinstance(user, MessagingUser)
    return user


def test_stored_user_contains_no_password() -> None:
    stored = alice().with_verifiers((VERIFIER,))
    assert "c2VjcmV0" not in stored.model_dump_json()
    assert stored.metadata.annotations == {"team": "north"}
    assert stored.spec.authentication.verifiers == (VERIFIER,)


def test_public_user_contains_no_verifiers() -> None:
    public = alice().with_verifiers((VERIFIER,)).public()
    assert public.document()["spec"]["authentication"] == {"type": "password"}


def test_repr_of_a_user_shows_no_secret() -> None:
    assert "c2VjcmV0" not in repr(alice().spec)
    assert "a2V5" not in repr(alice().with_verifiers((VERIFIER,)).spec)


def test_a_refused_password_is_not_repeated() -> None:
    with pytest.raises(Invalid) as refusal:
        alice("hunter2 is not base64")
    assert "hunter2" not in str(refusal.value)
    assert "hunter2" not in repr(refusal.value.faults)


def test_unknown_operation_is_the_only_fault() -> None:
    document = alice().document()
    document["spec"]["authorization"] = [{"operations": ["sned"]}]
    with pytest.raises(Invalid) as refusal:
        parse(document)
    assert [fault.field for fault in refusal.value.faults] == [
        "spec.authorization[0].operations[0]"
    ]
    document["spec"]["authorization"] = [{"operations": []}]
    with pytest.raises(Invalid, match=r"spec.authorization\[0\].operations: must not be empty"):
        parse(document)


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ([f"a/{n}" for n in range(PATTERNS_MAX + 1)], "has 1001 addresses; 1000 are allowed"),
        ([f"#/a/#/{n}" for n in range(WILDCARDS_MAX + 1)], "has 101 patterns with wildcards; 100"),
        ([f"a{n}*" for n in range(WILDCARDS_MAX + 1)], "has 101 patterns with wildcards; 100"),
    ],
)
def test_user_with_too_many_addresses_or_wildcards_is_rejected(
    addresses: list[str], said: str
) -> None:
    document = alice().document()
    half = len(addresses) // 2
    document["spec"]["authorization"] = [
        {"operations": ["send"], "addresses": addresses[:half]},
        {"operations": ["recv"], "addresses": addresses[half:]},
    ]
    with pytest.raises(Invalid) as refusal:
        parse(document)
    [fault] = refusal.value.faults
    assert fault.field == "spec.authorization"
    assert fault.message.startswith(said)
    document["spec"]["authorization"][1]["addresses"].pop()
    assert parse(document)
