"""The interoperability scenarios with python-qpid-proton; the contract is in README.md above."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proton import (
    Condition,
    ConnectionException,
    Delivery,
    Message,
    SSLDomain,
    Timeout,
    symbol,
)
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import (
    BlockingConnection,
    BlockingReceiver,
    BlockingSender,
    ConnectionClosed,
    LinkDetached,
)

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
    try:
        connection = open_connection(options, domain)
    except ConnectionException as error:
        raise Refused(str(error)) from error
    yield connection
    connection.close()


def open_connection(options: dict[str, Any], domain: SSLDomain | None = None) -> BlockingConnection:
    scheme = "amqps" if options.get("tls") else "amqp"
    mechanism = options.get("mechanism", "ANONYMOUS")
    return BlockingConnection(
        f"{scheme}://{options['host']}:{options['port']}",
        timeout=TIMEOUT_S,
        ssl_domain=domain,
        sasl_enabled=mechanism != "NONE",
        allowed_mechs=mechanism,
        user=options.get("user"),
        password=options.get("password"),
    )


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


def temporary(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    replies = connection.create_receiver(None, dynamic=True)
    name = replies.link.remote_source.address
    outcomes = []
    for sender in (connection.create_sender(name), connection.create_sender(None)):
        for number in range(options["count"]):
            sender.send(Message(address=name, body=f"message {number}"))
            outcomes.append("accepted")
    bodies = []
    for _ in outcomes:
        bodies.append(replies.receive(TIMEOUT_S).body)
        replies.accept()
    return {"outcomes": outcomes, "received": bodies}


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


def crowd(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    others: list[BlockingConnection] = []
    try:
        while len(others) < options["count"]:
            # The refusal may come with the answer to `open`, or right behind it.
            other = open_connection(options)
            other.create_sender(options["address"])
            others.append(other)
    except ConnectionClosed as error:
        return {"open": 1 + len(others), "condition": error.condition}
    return {"open": 1 + len(others), "condition": None}


def links(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    for number in range(options["count"]):
        if condition := condition_of(
            lambda number=number: connection.create_sender(options["address"], name=f"{number}")
        ):
            return {"open": number, "condition": condition}
    return {"open": options["count"], "condition": None}


def too_large(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    sender: BlockingSender = connection.create_sender(options["address"])
    told = sender.link.remote_max_message_size
    large = Message(body=b"x" * (told + 1))
    return {"told": told, "condition": condition_of(lambda: sender.send(large))}


def overfill(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    sender: BlockingSender = connection.create_sender(options["address"])
    for number in range(options["count"]):
        delivery = sender.link.send(Message(body=body(number, options["size"])))
        wait_settled(connection, [delivery])
        if delivery.remote_state != Delivery.ACCEPTED:
            outcome = OUTCOME_NAMES[delivery.remote_state]
            condition = delivery.remote.condition.name
            return {"accepted": number, "outcome": outcome, "condition": condition}
    return {"accepted": options["count"], "outcome": None, "condition": None}


def overdue(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    sender: BlockingSender = connection.create_sender(options["address"])
    sender.send(Message(body="nobody comes"))
    receiver = connection.create_receiver(options["dead"], credit=1)
    dead = receiver.receive(TIMEOUT_S)
    receiver.accept()
    return {"body": dead.body, "cause": dead.annotations["x-opt-dead-letter-cause"]}


def pour(connection: BlockingConnection, options: dict[str, Any]) -> dict[str, Any]:
    sender: BlockingSender = connection.create_sender(options["address"])
    accepted = 0

    def send(within_s: float) -> None:
        nonlocal accepted
        connection.wait(lambda: sender.link.credit > 0, timeout=within_s)
        delivery = sender.link.send(Message(body=body(accepted, options["size"])))
        wait_settled(connection, [delivery])
        accepted += delivery.remote_state == Delivery.ACCEPTED

    try:
        for _ in range(options["count"]):
            send(options["quiet_s"])
    except Timeout:
        stuck = True
    else:
        stuck = False
    at_once = accepted
    if options["patient"]:
        send(TIMEOUT_S)
    return {"accepted": at_once, "stuck": stuck, "later": accepted - at_once}


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        *(exchange, outcomes, drain, request, temporary, refused, multicast, anonymous),
        *(crowd, links, too_large, overfill, overdue, pour),
    )
}


def main(scenario: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        with connected(options) as connection:
            return SCENARIOS[scenario](connection, options)
    except Refused as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
