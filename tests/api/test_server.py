"""Sockets and signals of the HTTP server."""

import asyncio
import signal
import socket

import httpx2
import pytest

from enmasse.api import Server, bind
from enmasse.base.errors import Code, Unavailable
from served import Served


def test_a_free_port_is_taken_and_known() -> None:
    listener = bind("127.0.0.1", 0)
    assert listener.getsockname()[1] > 0
    listener.close()


def test_a_taken_port_is_named_with_the_mend() -> None:
    first = bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(Unavailable, match=f"127.0.0.1 port {port}: Address already in use; free"):
        bind("127.0.0.1", port)
    first.close()


def test_a_host_that_is_not_ours_is_named() -> None:
    with pytest.raises(Unavailable, match="cannot listen on 192.0.2.1") as refusal:
        bind("192.0.2.1", 0)
    assert refusal.value.code == Code.PORT_TAKEN


def test_ipv6_is_bound_too() -> None:
    listener = bind("::1", 0)
    assert listener.family == socket.AF_INET6
    listener.close()


async def test_it_serves_and_stops_and_leaves_signals_alone(served: Served) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    async with httpx2.AsyncClient() as http:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/healthz"
        assert (await http.get(url)).text == "ok\n"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    server.stop()
    async with asyncio.timeout(5):
        await running
