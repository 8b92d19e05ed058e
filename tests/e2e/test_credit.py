"""Senders of Qpid Proton that send while they have credit, as its examples do."""

import threading
from collections.abc import Iterator

import pytest
from proton import Event, Message, Timeout
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

from platform_process import Platform, running
from stream_documents import SPACE, address

CHUNK = 20
"""Messages that a sender writes before it reads incoming frames."""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("credit")
    documents = [SPACE, address("direct", type="anycast")]
    documents.append(address("full", type="queue", limits="{messages: 200, onFull: block}"))
    (folder / "documents.yaml").write_text("---\n".join(documents))
    with running(folder / "data", "-f", str(folder / "documents.yaml")) as platform:
        yield platform


class Sending(MessagingHandler):  # type: ignore[misc]
    """Sends messages until `count` are accepted; released messages are sent again."""

    def __init__(self, url: str, to: str, count: int) -> None:
        super().__init__()
        self._url, self._to, self._left = url, to, count
        self.faults: set[str] = set()
        self.ended = False

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self._url, reconnect=False)
        event.container.create_sender(connection, self._to)

    def on_sendable(self, event: Event) -> None:
        """Send while there is credit; a negative credit is true in Python and is a fault."""
        sent = 0
        while event.sender.credit and sent < CHUNK:
            if event.sender.credit < 0:
                self._fail(event, f"credit of {event.sender.credit}")
                return
            event.sender.send(Message(body="x" * 100))
            sent += 1

    def on_settled(self, event: Event) -> None:
        self.on_sendable(event)

    def on_accepted(self, event: Event) -> None:
        self._left -= 1
        if self._left == 0:
            self._end(event)

    def on_link_error(self, event: Event) -> None:
        self._fail(event, str(event.link.remote_condition))

    def _fail(self, event: Event, fault: str) -> None:
        self.faults.add(fault)
        self._end(event)

    def _end(self, event: Event) -> None:
        self.ended = True
        event.connection.close()


@pytest.mark.parametrize(("to", "most", "turns"), [("direct", 40, 20), ("full", 150, 8)])
@pytest.mark.timeout(120)
def test_busy_proton_sender_never_gets_negative_credit(
    platform: Platform, to: str, most: int, turns: int
) -> None:
    sending = Sending(platform.url(), to, turns * most)
    running_sender = threading.Thread(target=Container(sending).run, daemon=True)
    running_sender.start()
    while not sending.ended:
        connection = BlockingConnection(platform.url(), timeout=20)
        receiver = connection.create_receiver(to, credit=1000)
        try:
            for _ in range(most):
                receiver.receive(timeout=5)
                receiver.accept()
        except Timeout:
            # Every message has arrived, or the sender has failed.
            assert sending.ended, sending.faults
        connection.close()
    running_sender.join()
    assert not sending.faults
