"""Conformance of a running platform to its OpenAPI documents, with generated requests."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from platform_process import Platform

GROUPS = ("api/v1", "apis/admin.enmasse.io/v1beta2", "apis/enmasse.io/v1beta1")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MODES = {
    schemathesis.GenerationMode.POSITIVE: CHECKS,
    schemathesis.GenerationMode.NEGATIVE: [*CHECKS, negative_data_rejection, unsupported_method],
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "examples", [2, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("group", GROUPS)
def test_api_responses_conform_to_the_openapi_documents(
    platform: Platform, group: str, mode: schemathesis.GenerationMode, examples: int
) -> None:
    token = (platform.data / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    url = platform.url("http")
    schema = schemathesis.openapi.from_url(f"{url}/openapi/v3/{group}", headers=headers)
    # Every request carries a valid token, so none is wrong because its token is missing.
    schema.config.generation.update(with_security_parameters=False)
    asked = 0
    for operation in schema.get_all_operations():

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
        @given(operation.ok().as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            # A watch streams events until its timeout. Without that parameter a negative case may
            # be valid, so it is only checked against `CHECKS`.
            watches = case.query.pop("watch", None) is not None
            checks = CHECKS if watches else MODES[mode]
            case.call_and_validate(base_url=url, headers=headers, checks=checks)

        try:
            ask()
            asked += 1
        except Unsatisfiable:
            # An operation without a body and with free-form names has no invalid request.
            assert mode is schemathesis.GenerationMode.NEGATIVE
            assert not operation.ok().body, operation.ok().label
    assert asked
