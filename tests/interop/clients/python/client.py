"""The interoperability scenarios with python-qpid-proton; the contract is in README.md above."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proton import Condition, ConnectionException, Delivery, Message, SSLDomain, symbol
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender, LinkDetached

TIMEOUT_S = 60
OUTCOME_NAMES = {
    Delivery.ACCEPTED: "accepted",
    Delivery.REJECTED: "rejected",
    Delivery.RELEASED: "released",
    Delivery.MODIFIED: "modified",
}


class Refused(Exception):
    """The server did not let this client in."""


@contextmanager
def connected(options: dict[str, Any]) -> Iterator[BlockingConnection]:
    domain = None
    if options.get("tls"):
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(options["ca"])
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        if "certificate" in options:
            domain.set_credentials(options["certificate"], options["key"], None)
    scheme = "amqps" if options.get("tls") else "amqp"
    mechanism = options.get("mechanism", "ANONYMOUS")
    try:
        connection = BlockingConnection(
            f"{scheme}://{options['host']}:{options['port']}",
            timeout=TIMEOUT_S,
            ssl_domain=domain,
            sasl_enabled=mechanism != "NONE",
            allowed_mechs=mechanism,
            user=options.get("user"),
            password=options.get("password"),
        )
    except ConnectionException as error:
        raise Refused(str(error)) from error
    yield connection
    connection.close()


def body(number: int, size: int) -> bytes:
    return bytes([number % 256]) * size


def wait_settled(connection: BlockingConnection, deliveries: list[Delivery]) -> None:
    connection.wait(lambda: all(delivery.settled for delivery in deliveries), timeout=TIMEOUT_S)


def exchange(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    count, size = options["count"], options["size"]
    mode = AtMostOnce() if options["settled"] else AtLeastOnce()
    receiver = connection.create_receiver(options["address"], credit=count, options=mode)
    sender = connection.create_sender(options["address"], options=mode)
    deliveries = [
        sender.link.send(Message(id=number, body=body(number, size), inferred=True))
        for number in range(count)
    ]
    received = []
    for _ in range(count):
        received.append(receiver.receive(TIMEOUT_S))
        if not options["settled"]:
            receiver.accept()
    outcomes = {}
    if not options["settled"]:
        wait_settled(connection, deliveries)
        outcomes = dict(Counter(OUTCOME_NAMES[item.remote_state] for item in deliveries))
    return {
        "received": len(received),
        "in_order": [message.id for message in received] == list(range(count)),
        "intact": all(bytes(item.body) == body(item.id, size) for item in received),
        "outcomes": outcomes,
    }


def outcomes(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    receiver = connection.create_receiver(options["address"], credit=4)
    sender = connection.create_sender(options["address"])
    sent = [sender.link.send(Message(id=number, body="judge me")) for number in range(4)]
    judge(receiver, Delivery.ACCEPTED)
    judge(receiver, Delivery.REJECTED, error=Condition("test:spoiled", "past its date"))
    judge(receiver, Delivery.RELEASED)
    judge(receiver, Delivery.MODIFIED, failed=True, undeliverable=True)
    wait_settled(connection, sent)
    error, modified = sent[1].remote.condition, sent[3].remote
    return {
        "outcomes": [OUTCOME_NAMES[delivery.remote_state] for delivery in sent],
        "error": {"condition": error.name, "description": error.description},
        "modified": {
            "delivery_failed": modified.failed,
            "undeliverable_here": modified.undeliverable,
        },
    }


def judge(
    receiver: BlockingReceiver,
    state: int,
    error: Condition | None = None,
    failed: bool = False,
    undeliverable: bool = False,
) -> None:
    """Receive one message and settle it with this outcome."""
    receiver.receive(TIMEOUT_S)
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.condition = error
    delivery.local.failed = failed
    delivery.local.undeliverable = undeliverable
    delivery.update(state)
    delivery.settle()


def drain(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    receiver = connection.create_receiver(options["address"], credit=10)
    sender = connection.create_sender(options["address"])
    sent = [sender.link.send(Message(id=number)) for number in range(options["count"])]
    for _ in range(options["count"]):
        receiver.receive(TIMEOUT_S)
        receiver.accept()
    wait_settled(connection, sent)
    receiver.link.drain(0)
    connection.wait(lambda: receiver.link.credit == 0, timeout=TIMEOUT_S)
    return {"received": options["count"], "drained": receiver.link.credit == 0}


def request(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    service = connection.create_receiver(options["address"], credit=10)
    answers = connection.create_sender(None)
    replies = connection.create_receiver(None, credit=10, dynamic=True)
    requests = connection.create_sender(options["address"])
    reply_to = replies.link.remote_source.address
    texts, correlated = [], True
    for number in range(options["count"]):
        question = Message(id=number, reply_to=reply_to, body=f"ping {number}")
        requests.link.send(question)
        asked = service.receive(TIMEOUT_S)
        service.accept()
        answers.link.send(
            Message(address=asked.reply_to, correlation_id=asked.id, body=asked.body.upper())
        )
        reply = replies.receive(TIMEOUT_S)
        replies.accept()
        texts.append(reply.body)
        correlated = correlated and reply.correlation_id == number
    return {"replies": texts, "correlated": correlated}


def refused(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "sender": condition_of(lambda: connection.create_sender(options["address"])),
        "receiver": condition_of(lambda: connection.create_receiver(options["address"])),
    }


def condition_of(attach: Any) -> str | None:
    try:
        attach()
    except LinkDetached as error:
        return error.condition
    return None


def multicast(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    count = options["count"]
    receivers = [
        connection.create_receiver(options["address"], credit=count, name=f"listener-{number}")
        for number in range(3)
    ]
    sender = connection.create_sender(options["address"])
    sent = [sender.link.send(Message(id=number)) for number in range(count)]
    received = []
    for receiver in receivers:
        numbers = [receiver.receive(TIMEOUT_S).id for _ in range(count)]
        for _ in numbers:
            receiver.accept()
        received.append(len(set(numbers)))
    wait_settled(connection, sent)
    return {"received": received}


def anonymous(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    relay = symbol("ANONYMOUS-RELAY") in (connection.conn.remote_offered_capabilities or [])
    receiver = connection.create_receiver(options["address"], credit=1)
    sender: BlockingSender = connection.create_sender(None)
    known = sender.link.send(Message(address=options["address"], body="known"))
    receiver.receive(TIMEOUT_S)
    receiver.accept()
    unknown = sender.link.send(Message(address=options["unknown"], body="unknown"))
    wait_settled(connection, [known, unknown])
    return {
        "relay": relay,
        "known": OUTCOME_NAMES[known.remote_state],
        "unknown": OUTCOME_NAMES[unknown.remote_state],
        "condition": unknown.remote.condition.name,
    }


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (exchange, outcomes, drain, request, refused, multicast, anonymous)
}


def main(scenario: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        with connected(options) as connection:
            return SCENARIOS[scenario](connection, options)
    except Refused as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
