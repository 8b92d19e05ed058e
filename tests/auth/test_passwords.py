"""Verifiers that are stored in place of a password."""

import base64

import pytest

import doubles
from enmasse.auth import passwords
from enmasse.auth.passwords import derive, verify, without_password
from enmasse.base.errors import Invalid
from enmasse.resources import MessagingUser


def alice(password: str | None = "pencil") -> MessagingUser:
    return doubles.user("shop.alice", password)


def test_scram_keys_match_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = passwords._verifier("SCRAM-SHA-256", "pencil", salt, 4096)
    assert verifier.stored_key == "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert verifier.server_key == "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


def test_derive_returns_one_verifier_per_hash_with_its_own_salt() -> None:
    first, second = derive("pencil")
    assert {first.mechanism, second.mechanism} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert first.salt != second.salt
    assert first.iterations == second.iterations == 10_000


def test_verify_accepts_only_the_same_password_and_iterations() -> None:
    verifiers = derive("pencil")
    assert verify("pencil", verifiers)
    assert not verify("Pencil", verifiers)
    assert not verify("pencil", ())
    weak = (verifiers[0].model_copy(update={"iterations": 4096}),)
    assert not verify("pencil", weak)


def test_stored_user_has_verifiers_in_place_of_its_password() -> None:
    stored = without_password(alice(), None)
    assert stored.spec.authentication.password is None
    assert verify("pencil", stored.spec.authentication.verifiers)


def test_unchanged_password_keeps_the_stored_verifiers() -> None:
    stored = without_password(alice(), None)
    assert without_password(alice(), stored) == stored
    assert without_password(alice(None), stored) == stored


def test_changed_password_replaces_the_verifiers() -> None:
    stored = without_password(alice(), None)
    changed = without_password(alice("brush"), stored)
    assert verify("brush", changed.spec.authentication.verifiers)
    assert not verify("pencil", changed.spec.authentication.verifiers)


def test_password_is_normalized_by_saslprep_before_hashing() -> None:
    stored = without_password(alice("a\u00adb"), None)
    assert verify("ab", stored.spec.authentication.verifiers)


def test_a_new_user_needs_a_password() -> None:
    with pytest.raises(Invalid, match=r"spec\.authentication\.password: is required") as refusal:
        without_password(alice(None), None)
    assert refusal.value.context["name"] == "shop.alice"


def test_prohibited_password_is_rejected_without_repeating_it() -> None:
    with pytest.raises(Invalid, match="cannot be used") as refusal:
        without_password(alice("secret\u0007"), None)
    assert "secret" not in refusal.value.message


def test_a_federated_user_has_no_password() -> None:
    user = alice()
    federated = user.spec.authentication.model_copy(update={"type": "federated", "password": None})
    changed = user.model_copy(
        update={"spec": user.spec.model_copy(update={"authentication": federated})}
    )
    stored = without_password(user, None)
    assert stored.spec.authentication.verifiers
    assert without_password(changed, stored).spec.authentication.verifiers == ()
