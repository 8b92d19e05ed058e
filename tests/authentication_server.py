"""An external authentication service: the original's handshake, SASL over AMQP."""

import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, ulong

SASL_HEADER, AMQP_HEADER = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
OPEN, CLOSE = 0x10, 0x18
MECHANISMS, INIT, OUTCOME = 0x40, 0x41, 0x44
AUTHZ = symbol("ADDRESS-AUTHZ")


@dataclass
class Authenticator:
    """Knows users, and notes what it was asked."""

    port: int = 0
    passwords: dict[str, str] = field(default_factory=dict)
    authz: dict[str, list[str]] = field(default_factory=dict)
    """Operations of addresses."""

    groups: list[str] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Mechanism and host name of SASL of each login."""

    code: int | None = None
    """Outcome of SASL whatever is shown; None is right or wrong."""

    def judge(self, mechanism: str, response: bytes, host: str | None) -> tuple[int, str]:
        """Return the outcome of SASL and the user."""
        self.asked.append((mechanism, host))
        _, user, password = response.decode().split("\0")
        right = self.passwords.get(user) == password
        return (self.code if self.code is not None else 0 if right else 1), user

    def properties(self, user: str) -> dict[Any, Any]:
        """Return what its open says of a user."""
        listed = {
            name: Array(UNDESCRIBED, Data.STRING, *operations)
            for name, operations in self.authz.items()
        }
        return {
            symbol("authenticated-identity"): {"sub": f"id-{user}", "preferred_username": user},
            symbol("groups"): self.groups,
            symbol("address-authz"): listed,
        }


class _Peer:
    """Frames of one connection."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def take(self, count: int) -> bytes:
        data: bytes = self._stream.recv(count)
        while 0 < len(data) < count and (more := self._stream.recv(count - len(data))):
            data += more
        return data

    def put(self, data: bytes) -> None:
        self._stream.sendall(data)

    def send(self, kind: int, code: int, *fields: Any) -> None:
        data = Data()
        data.put_py_described(Described(ulong(code), list(fields)))
        body = data.encode()
        self.put(struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body)

    def receive(self) -> tuple[int, list[Any]]:
        (size,) = struct.unpack(">I", self.take(4))
        data = Data()
        data.decode(self.take(size - 4)[4:])
        data.next()
        found = data.get_py_described()
        # Bytes are views of memory that goes with `data`.
        values = [bytes(one) if isinstance(one, memoryview) else one for one in found.value]
        return int(found.descriptor), values


def _serve(peer: _Peer, known: Authenticator) -> None:
    assert peer.take(8) == SASL_HEADER
    peer.put(SASL_HEADER)
    peer.send(1, MECHANISMS, Array(UNDESCRIBED, Data.SYMBOL, symbol("PLAIN")))
    code, fields = peer.receive()
    assert code == INIT
    mechanism, response, host = [*fields, None][:3]
    verdict, user = known.judge(str(mechanism), bytes(response), host)
    peer.send(1, OUTCOME, ubyte(verdict))
    if verdict:
        return
    assert peer.take(8) == AMQP_HEADER
    peer.put(AMQP_HEADER)
    code, fields = peer.receive()
    assert code == OPEN
    desired = fields[8] if len(fields) > 8 else None
    asks = desired == AUTHZ or AUTHZ in getattr(desired, "elements", desired or ())
    properties = known.properties(user) if asks else {}
    offered = [None, None, None, None, None, AUTHZ, None, properties]
    peer.send(0, OPEN, "authenticator", fields[1], *offered)
    while peer.receive()[0] != CLOSE:
        pass
    peer.send(0, CLOSE)


@contextmanager
def authenticator(folder: Path | None = None) -> Iterator[Authenticator]:
    """Serve on this machine; with a folder over TLS, and `ca.crt` of its authority there."""
    known = Authenticator()
    secured: ssl.SSLContext | None = None
    if folder is not None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.crt")
        secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(secured)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                stream = self.request
                if secured is not None:
                    stream = secured.wrap_socket(stream, server_side=True)
                with stream:
                    _serve(_Peer(stream), known)
            except (OSError, struct.error):
                pass  # the peer has gone, which is its right

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        known.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()
