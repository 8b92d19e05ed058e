"""Origin checks of AMQP over WebSocket, with the requests that browsers send."""

import base64
import os
import socket

import pytest

from platform_process import Platform, Start

TIMEOUT_S = 20.0
LISTED = "https://console.example.com"
ROUTED = "messaging.example.com"
SPACE = f"""
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec:
  type: standard
  endpoints:
  - name: web
    service: messaging
    expose: {{type: route, routeHost: {ROUTED}, routeServicePort: amqps}}
"""
SWITCHING, FORBIDDEN = 101, 403


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    space = tmp_path_factory.mktemp("pages") / "space.yaml"
    space.write_text(SPACE)
    return start_platform("-f", space, "--ws-origins", LISTED)


def upgrade(platform: Platform, host: str | None, origin: str | None) -> tuple[int, str]:
    """Request a WebSocket like a page of `origin`; return the status and the reason."""
    port = platform.port("ws")
    lines = [
        "GET / HTTP/1.1",
        f"Host: {host or f'localhost:{port}'}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Protocol: amqp",
    ]
    if origin is not None:
        lines.append(f"Origin: {origin}")
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as wire:
        wire.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.startswith(b"HTTP/1.1 101"):
            more = wire.recv(4096)
            if not more:
                break
            answer += more
    head, _, reason = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), reason


def test_websocket_of_a_foreign_origin_is_forbidden(platform: Platform) -> None:
    for origin in ("https://evil.example", "http://localhost:3000", "null"):
        status, reason = upgrade(platform, None, origin)
        assert status == FORBIDDEN
        assert "--ws-origins" in reason


def test_websocket_after_dns_rebinding_is_forbidden(platform: Platform) -> None:
    port = platform.port("ws")
    status, reason = upgrade(platform, f"evil.example:{port}", f"http://evil.example:{port}")
    assert status == FORBIDDEN
    assert 'is not called "evil.example:' in reason


def test_websocket_of_own_route_and_listed_origins_is_accepted(platform: Platform) -> None:
    own = [
        f"{scheme}://{name}:{platform.port(scheme)}"
        for scheme in ("http", "https")
        for name in ("localhost", "127.0.0.1")
    ]
    for origin in (*own, f"https://{ROUTED}", LISTED):
        assert upgrade(platform, None, origin)[0] == SWITCHING, origin


def test_websocket_without_an_origin_is_accepted(platform: Platform) -> None:
    for host in (None, f"127.0.0.1:{platform.port('ws')}", ROUTED):
        assert upgrade(platform, host, None)[0] == SWITCHING


def test_ws_origins_wildcard_accepts_every_origin(start_platform: Start) -> None:
    platform = start_platform("--ws-origins", "*")
    assert upgrade(platform, None, "https://evil.example")[0] == SWITCHING


def test_invalid_ws_origin_fails_the_start(start_platform: Start) -> None:
    with pytest.raises(AssertionError, match="ended with 1 before ready"):
        start_platform("--ws-origins", "console.example.com")
