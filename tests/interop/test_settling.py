"""Sending links that ask for the receiver settlement mode `second` (2.8.4), by client library.

azure-servicebus and uamqp request it by default and never settle; go-amqp fails an attach that
grants another mode, and settles.
"""

from typing import Any

import pytest

from interop.clients import AZURE, CLIENTS, place
from platform_process import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COUNT = 10
TIMEOUT_S = 20
ADDRESSES = ("queue", "topic")


def options(
    platform: Platform, address: str, listener: str = "amqp", **more: Any
) -> dict[str, Any]:
    asked = {"address": address, "count": COUNT, "timeout_s": TIMEOUT_S}
    return place(platform, listener) | asked | more


@pytest.mark.parametrize(("library", "listener"), [("pyamqp", "amqp"), ("uamqp", "amqps")])
@pytest.mark.parametrize("introduced", [True, False])
def test_azure_sdk_sender_receives_every_outcome(
    platform: Platform, library: str, listener: str, introduced: bool
) -> None:
    AZURE.prepare()
    for address in ADDRESSES:
        asked = options(platform, address, listener, introduced=introduced)
        assert AZURE.call(library, **asked) == {"sent": COUNT}


def test_go_amqp_sender_that_requires_settle_mode_second_gets_it(platform: Platform) -> None:
    client = CLIENTS["go"]
    client.prepare()
    for address in ADDRESSES:
        assert client.call("second", **options(platform, address)) == {"accepted": COUNT}
