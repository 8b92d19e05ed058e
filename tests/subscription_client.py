"""A client of the subscription service for AMQP clients (`docs/contracts.md` 10)."""

from typing import Any

from proton import Delivery, Message
from proton.utils import BlockingConnection

from proton_client import TIMEOUT_S


class Service:
    """The subscription service, over one connection."""

    def __init__(self, connection: BlockingConnection, name: str = "$subctrl") -> None:
        self._connection = connection
        self._link = connection.create_sender(name).link
        self._answers = connection.create_receiver(None, dynamic=True, credit=10)

    def outcome(self, subject: str | None, body: Any = None, **fields: Any) -> Any:
        """Send a request; return its settled delivery."""
        self._connection.wait(lambda: self._link.credit > 0)
        delivery: Any = self._link.send(Message(subject=subject, body=body, **fields))
        self._connection.wait(lambda: delivery.settled)
        return delivery

    def refusal(self, subject: str | None, body: Any = None, **fields: Any) -> tuple[str, str]:
        """Send a request that is rejected; return condition and description."""
        delivery = self.outcome(subject, body, **fields)
        assert delivery.remote_state == Delivery.REJECTED
        condition = delivery.remote.condition
        return condition.name, condition.description

    def ask(self, name: str, subject: str, body: Any = None, **fields: Any) -> None:
        """Send a request that is accepted."""
        delivery = self.outcome(subject, body, correlation_id=name, **fields)
        assert delivery.remote_state == Delivery.ACCEPTED, delivery.remote.condition

    def subscribe(self, name: str, **filters: int) -> None:
        """Add filters, in which `_` stands for `/`, and `all` for `#`."""
        self.ask(name, "subscribe", spelled(filters))

    def list(self, name: str) -> dict[str, int]:
        """The filters of a subscription."""
        reply_to = self._answers.link.remote_source.address
        self.ask(name, "list", reply_to=reply_to)
        answer: Any = self._answers.receive(timeout=TIMEOUT_S)
        self._answers.accept()
        assert (answer.subject, answer.correlation_id) == ("subscriptions", name)
        return {filter_: int(qos) for filter_, qos in answer.body.items()}


def spelled(filters: dict[str, int]) -> dict[str, int]:
    """The filters that keyword arguments stand for."""
    return {name.replace("_", "/").replace("all", "#"): qos for name, qos in filters.items()}
