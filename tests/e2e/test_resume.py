"""Links that are resumed after a `kill -9` (2.6.13): every message exactly once.

The client writes its own frames and keeps the state that the standard requires: the unsettled
deliveries of each end by tag, with their delivery states.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proton import Data, Described, Message, symbol, ubyte, uint, ulong
from proton.utils import BlockingConnection

from platform_process import Platform, running
from proton_client import address, document

pytestmark = pytest.mark.timeout(300)


OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = range(0x10, 0x16)
SOURCE, TARGET = 0x28, 0x29
ACCEPTED = Described(ulong(0x24), [])
ACCEPTED_STATE = (0x24, [])
SENDER, RECEIVER = False, True
TIMEOUT_S = 30


def read_value(data: Data) -> Any:
    """Return the value at the cursor; a described one as a pair, binaries as bytes."""
    kind = data.type()
    if kind not in (Data.DESCRIBED, Data.LIST, Data.MAP):
        return bytes(data.get_binary()) if kind == Data.BINARY else data.get_object()
    data.enter()
    inside = []
    while data.next() is not None:
        inside.append(read_value(data))
    data.exit()
    if kind == Data.MAP:
        return dict(zip(inside[::2], inside[1::2], strict=True))
    return tuple(inside) if kind == Data.DESCRIBED else inside


class Peer:
    """One connection of the container `worker`, with a session and one link."""

    def __init__(self, platform: Platform) -> None:
        place = platform.endpoints["amqp"]
        self.socket = socket.create_connection((place["host"], place["port"]), timeout=TIMEOUT_S)
        self.bytes = bytearray()
        self.credit = self.came = self.sent = 0
        self.outcomes: dict[int, Any] = {}
        """Delivery states that the node has sent, by id."""

        self.settled: set[int] = set()
        """Deliveries that the node, their sender, has settled."""

        self.deliveries: list[tuple[int, bytes, bool, str]] = []
        """Id, tag, whether resumed, and body."""

        self.attached: list[Any] | None = None
        self.socket.sendall(b"AMQP\0\1\0\0")
        self.say(OPEN, ["worker"])
        self.say(BEGIN, [None, uint(0), uint(2048), uint(2048)])
        assert self.take(8) == b"AMQP\0\1\0\0"

    def close(self) -> None:
        self.socket.close()

    def say(self, performative: int, fields: list[Any], payload: bytes = b"") -> None:
        data = Data()
        data.put_object(Described(ulong(performative), fields))
        frame = bytes(data.encode()) + payload
        self.socket.sendall((8 + len(frame)).to_bytes(4, "big") + b"\2\0\0\0" + frame)

    def attach(self, role: bool, unsettled: dict[bytes, Any]) -> dict[bytes, Any]:
        """Attach a link to `orders` that can be resumed; return the node's unsettled map."""
        kept = ["orders", uint(2), symbol("never")]
        source = Described(ulong(SOURCE), kept if role is RECEIVER else ["worker"])
        target = Described(ulong(TARGET), kept if role is SENDER else ["worker"])
        count = uint(0) if role is SENDER else None
        modes = (ubyte(0), ubyte(1))
        name = "in" if role is RECEIVER else "out"
        termini = (source, target, unsettled)
        self.say(ATTACH, [name, uint(0), role, *modes, *termini, False, count])
        self.hear(lambda: self.attached is not None)
        assert self.attached is not None
        return dict(self.attached[7] or {})

    def grant(self, credit: int) -> None:
        """Grant credit."""
        numbers = [self.came, 2048, 0, 2048, 0, self.came, credit]
        self.say(FLOW, [uint(number) for number in numbers])

    def transfer(self, tag: bytes, *, resume: bool = False) -> int:
        """Send the message with this tag as its body; return its delivery id."""
        self.hear(lambda: self.credit > self.sent)
        number = self.sent
        self.sent += 1
        fields = [uint(0), uint(number), tag, uint(0), False, False, None, None, resume]
        self.say(TRANSFER, fields, Message(body=tag.decode()).encode())
        return number

    def settle(self, role: bool, number: int, *, settled: bool) -> None:
        """Send the outcome accepted for a delivery, settled or unsettled."""
        self.say(DISPOSITION, [role, uint(number), uint(number), settled, ACCEPTED])

    def hear(self, done: Callable[[], bool]) -> None:
        """Process frames until a condition holds."""
        while not done():
            size = int.from_bytes(self.take(4), "big")
            frame = self.take(size - 4)[4:]
            if frame:
                self.take_in(frame)

    def take_in(self, frame: bytes) -> None:
        data = Data()
        length = data.decode(frame)
        data.rewind()
        data.next()
        performative, fields = read_value(data)
        if performative == ATTACH:
            self.attached = fields
        elif performative == FLOW and len(fields) > 6 and fields[6] is not None:
            self.credit = (fields[5] or 0) + fields[6]
        elif performative == TRANSFER:
            message = Message()
            message.decode(frame[length:])
            resume = len(fields) > 8 and bool(fields[8])
            self.deliveries.append((fields[1], fields[2], resume, str(message.body)))
            self.came += 1
        elif performative == DISPOSITION:
            role, first, last, settled, state = (*fields, None, None)[:5]
            numbers = range(first, (first if last is None else last) + 1)
            if role is RECEIVER:
                self.outcomes |= dict.fromkeys(numbers, state)
            elif settled:
                self.settled |= set(numbers)
        else:
            assert performative in (OPEN, BEGIN, FLOW), (performative, fields)

    def take(self, count: int) -> bytes:
        while len(self.bytes) < count:
            more = self.socket.recv(65536)
            assert more, "the node has closed the connection"
            self.bytes += more
        taken = bytes(self.bytes[:count])
        del self.bytes[:count]
        return taken


def start(folder: Path) -> tuple[Path, str, str]:
    return folder / "data", "-f", str(document(folder, address("orders")))


def take_all(platform: Platform, count: int) -> list[str]:
    """Receive `count` messages and check that the queue is then empty."""
    with closing(BlockingConnection(platform.url(), timeout=TIMEOUT_S)) as connection:
        receiver = connection.create_receiver("orders", credit=count)
        bodies = []
        for _ in range(count):
            bodies.append(str(receiver.receive(timeout=TIMEOUT_S).body))
            receiver.accept()
    assert depth(platform) == 0
    return bodies


def depth(platform: Platform) -> int:
    """Return the number of messages of the queue, delivered ones included."""
    with closing(BlockingConnection(platform.url(), timeout=TIMEOUT_S)) as connection:
        replies = connection.create_receiver(None, dynamic=True, credit=1)
        to = replies.link.remote_source.address
        asked = {"operation": "READ", "type": "enmasse.address", "name": "orders"}
        requests = connection.create_sender("$management")
        requests.send(Message(id="depth", reply_to=to, properties=asked))
        return int(replies.receive(timeout=TIMEOUT_S).body["depth"])


def test_resumed_sender_stores_each_message_once(tmp_path: Path) -> None:
    data, *documents = start(tmp_path)
    tags = [f"m{number}".encode() for number in range(200)]
    unsettled: dict[bytes, Any] = {}
    waiting, resumed = list(tags), 0
    for life in range(4):
        with running(data, *documents) as platform, closing(Peer(platform)) as peer:
            known = peer.attach(SENDER, unsettled)
            assert set(known) <= set(unsettled)
            assert all(state == ACCEPTED_STATE for state in known.values())
            resumed += len(known)
            deliveries = {peer.transfer(tag, resume=True): tag for tag in known}
            # The node has never received a delivery that it does not name.
            waiting = [tag for tag in unsettled if tag not in known] + waiting
            unsettled = dict.fromkeys(known)
            count = len(waiting) if life == 3 else 50
            for tag in waiting[:count]:
                unsettled[tag] = None
                deliveries[peer.transfer(tag)] = tag
            del waiting[:count]
            enough = len(deliveries) if life == 3 else 20 + len(known)
            peer.hear(lambda peer=peer, enough=enough: len(peer.outcomes) >= enough)
            assert all(state == ACCEPTED_STATE for state in peer.outcomes.values())
            # Half of the outcomes are settled; the node may not receive these dispositions.
            for number in sorted(peer.outcomes)[: enough if life == 3 else enough // 2]:
                peer.settle(SENDER, number, settled=True)
                del unsettled[deliveries[number]]
            platform.kill()
    assert resumed >= 30, "each run leaves unsettled deliveries with outcomes"
    assert (waiting, unsettled) == ([], {})
    with running(data, *documents) as platform:
        bodies = take_all(platform, len(tags))
        assert sorted(bodies) == sorted(tag.decode() for tag in tags)


def test_resumed_receiver_gets_each_message_once(tmp_path: Path) -> None:
    data, *documents = start(tmp_path)
    bodies = [f"m{number}" for number in range(60)]
    with (
        running(data, *documents) as platform,
        closing(BlockingConnection(platform.url(), timeout=TIMEOUT_S)) as connection,
    ):
        sender = connection.create_sender("orders")
        for body in bodies:
            sender.send(Message(body=body))
        connection.close()
        platform.kill()
    held: dict[bytes, str] = {}
    said: set[bytes] = set()
    done: list[str] = []
    for life in range(4):
        with running(data, *documents) as platform, closing(Peer(platform)) as peer:
            states = {tag: ACCEPTED if tag in said else None for tag in held}
            known = peer.attach(RECEIVER, states)
            assert set(known) == {tag for tag in held if tag not in said}, "unsettled at the node"
            assert set(known.values()) <= {None}
            held = {tag: body for tag, body in held.items() if tag in known}
            said.clear()
            last = life == 3
            count = len(bodies) - len(done) if last else len(known) + 15
            peer.grant(count)
            peer.hear(lambda peer=peer, count=count: len(peer.deliveries) >= count)
            again = {tag: body for _, tag, resume, body in peer.deliveries if resume}
            assert again == held, "unsettled deliveries must be resumed under their tags"
            held |= {tag: body for _, tag, _, body in peer.deliveries}
            for number, tag, _, body in peer.deliveries[: count if last else 10]:
                done.append(body)
                said.add(tag)
                peer.settle(RECEIVER, number, settled=False)
            if last:
                peer.hear(lambda peer=peer, count=count: len(peer.settled) >= count)
                assert depth(platform) == 0
            # Otherwise the node may not have received the last dispositions.
            platform.kill()
    assert sorted(done) == sorted(bodies)
