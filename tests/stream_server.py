"""A server of streams on which a test can drop messages, recreate the stream or disconnect.

It speaks `docs/contracts.md` 9 by Qpid Proton, so that readers are tested against another AMQP than
our own. Whatever address is named is a stream with one partition; messages live in memory.
"""

import socket
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from proton import Described, Event, Message, symbol, timestamp, ulong
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

OFFSET = "rabbitmq:stream-offset-spec"


@dataclass
class Kept:
    """One stream: `messages` begin with offset `first`."""

    uid: str
    first: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def next(self) -> int:
        return self.first + len(self.messages)

    def start(self, wanted: Any) -> int:
        """The offset where a reader begins."""
        value = wanted.value if isinstance(wanted, Described) else wanted
        if isinstance(value, timestamp):
            return self.first
        if isinstance(value, int):
            return max(int(value), self.first)
        return {"first": self.first, "last": max(self.first, self.next - 1)}.get(value, self.next)


class StreamServer(MessagingHandler):
    """Runs in a thread of its own until it is closed; what is asked of it happens there."""

    def __init__(self, port: int = 0, streams: dict[str, Kept] | None = None) -> None:
        super().__init__(prefetch=1000)
        self.streams = {} if streams is None else streams
        self.connections: list[Any] = []
        self._made: dict[str, int] = defaultdict(int)
        self._at: dict[Any, int] = {}
        self._asks = EventInjector()
        self.port = port
        self._ready = threading.Event()
        self._container = Container(self)
        self._container.selectable(self._asks)
        self._thread = threading.Thread(target=self._container.run)
        self._thread.start()
        assert self._ready.wait(20)

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def forget(self, address: str, count: int) -> None:
        """Drop the first messages of a stream, as retention does."""

        def drop() -> None:
            kept = self.streams[address]
            del kept.messages[:count]
            kept.first += count

        self._do(drop)

    def make_anew(self, address: str) -> None:
        """Delete a stream; the next who names it makes another."""
        self._do(lambda: self.streams.pop(address, None))

    def close(self) -> None:
        """Go away with all connections."""

        def stop() -> None:
            self._acceptor.close()
            self._asks.close()
            for connection in self.connections:
                connection.close()

        self._do(stop)
        self._thread.join()

    def _do(self, ask: Any) -> None:
        done = threading.Event()
        event = ApplicationEvent("ask")
        event.ask, event.done = ask, done
        self._asks.trigger(event)
        assert done.wait(20)

    def on_ask(self, event: Any) -> None:
        event.ask()
        event.done.set()

    def on_start(self, event: Event) -> None:
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        # a port that had a server is listened on again at once, whatever is left of its connections
        self._acceptor = event.container.listen(f"127.0.0.1:{self.port}")
        self._ready.set()

    def on_connection_opening(self, event: Event) -> None:
        self.connections.append(event.connection)

    def on_connection_closed(self, event: Event) -> None:
        if event.connection in self.connections:
            self.connections.remove(event.connection)

    def _kept(self, address: str) -> Kept:
        if address not in self.streams:
            self._made[address] += 1
            self.streams[address] = Kept(f"{address}-{self._made[address]}")
        return self.streams[address]

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if not link.is_sender:
            self._kept(link.remote_target.address)
            return
        kept = self._kept(link.remote_source.address)
        filters = link.remote_source.filter
        filters.rewind()
        filters.next()
        self._at[link.name] = kept.start(filters.get_dict()[symbol(OFFSET)])
        part = {"partition": 0, "first": ulong(kept.first), "next": ulong(kept.next)}
        link.properties = {symbol("enmasse:stream"): {"uid": kept.uid, "partitions": [part]}}

    def on_message(self, event: Event) -> None:
        kept = self._kept(event.link.target.address)
        message = event.message
        message.annotations = {symbol("x-stream-offset"): ulong(kept.next)}
        kept.messages.append(message)

    def on_sendable(self, event: Event) -> None:
        link = event.link
        kept = self._kept(link.source.address)
        at = self._at[link.name]
        while link.credit > 0 and at < kept.next:
            link.send(kept.messages[at - kept.first]).settle()
            at += 1
        self._at[link.name] = at
        if link.drain_mode:
            link.drained()
