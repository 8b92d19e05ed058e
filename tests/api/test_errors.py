"""The table of the API: every kind and code of error has an HTTP status."""

import pytest

from enmasse.api.errors import BY_CODE, BY_KIND, answer_to, error_response, status_object
from enmasse.base.errors import KINDS, Code, EnMasseError, Exhausted, Fault, Invalid


def test_every_kind_of_error_has_an_http_status() -> None:
    assert set(BY_KIND) == set(KINDS.values())


@pytest.mark.parametrize("code", list(Code))
def test_every_error_code_has_its_own_status_or_that_of_its_kind(code: Code) -> None:
    kind = list(KINDS.values())[int(code[1]) - 1]
    answer = answer_to(kind(code, "text"))
    assert answer == BY_CODE.get(code, BY_KIND[kind])
    assert 400 <= answer.status < 600
    if kind.kind not in ("Unavailable", "PeerError", "Misuse"):
        assert answer.status < 500


def test_status_object_names_every_invalid_field() -> None:
    faults = [Fault("spec.type", "is required"), Fault("spec.address", "must not be empty")]
    error: EnMasseError = Invalid(Code.FIELD_INVALID, "Address a.b: bad", faults=faults)
    status = status_object(error)
    assert status["kind"] == "Status"
    assert status["status"] == "Failure"
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == "Address a.b: bad"
    assert status["details"]["code"] == "E1003"
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.type",
        "spec.address",
    ]


def test_exhausted_error_sets_retry_after() -> None:
    error = Exhausted(Code.LIMIT_REACHED, "later", retry_after_s=2.4)
    assert error_response(error).headers["Retry-After"] == "2"
    assert status_object(error)["details"]["retryAfterSeconds"] == 2
