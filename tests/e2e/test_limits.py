"""Bounds of an address, as a client sees them."""

import subprocess
from contextlib import closing

import pytest
from proton.utils import BlockingConnection

from platform_process import Platform

pytestmark = pytest.mark.timeout(120)


def test_attach_announces_the_max_message_size_of_an_address(platform: Platform) -> None:
    platform.enmasse("create", "address", "small", "--type", "anycast", "--max-message-size", "2Ki")
    with closing(BlockingConnection(platform.url())) as connection:
        sender = connection.create_sender("small")
        assert sender.link.remote_max_message_size == 2048


def test_create_of_an_invalid_address_exits_1(platform: Platform) -> None:
    words = "create address odd --type anycast --deadletter dead".split()
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        platform.enmasse(*words)
    assert refusal.value.returncode == 1
