"""Bounds of an address, as a client meets them."""

import subprocess
from contextlib import closing

import pytest
from proton.utils import BlockingConnection

from platform_process import Platform

pytestmark = pytest.mark.timeout(120)


def test_a_client_learns_how_large_a_message_may_be(platform: Platform) -> None:
    platform.enmasse("create", "address", "small", "--type", "anycast", "--max-message-size", "2Ki")
    with closing(BlockingConnection(platform.url())) as connection:
        sender = connection.create_sender("small")
        assert sender.link.remote_max_message_size == 2048


def test_what_an_address_cannot_have_is_one_line(platform: Platform) -> None:
    words = "create address odd --type anycast --deadletter dead".split()
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        platform.enmasse(*words)
    assert refusal.value.returncode == 1
