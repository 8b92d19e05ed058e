"""The management node of a platform process, by the AMQP Management draft."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import Message, Terminus
from proton.reactor import ReceiverOption
from proton.utils import SendException

from platform_process import Platform, Start
from proton_client import address, connected, document, numbered, send

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    address("parts", "topic", retention="{bytes: 1GiB}", partitions=3),
    address("orders"),
    address("direct", "anycast"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


class TargetAddress(ReceiverOption):  # type: ignore[misc]
    """Names the receiver's own end of the link."""

    def __init__(self, address: str) -> None:
        self.address = address

    def apply(self, receiver: Any) -> None:
        target: Terminus = receiver.target
        target.address = self.address


@contextmanager
def asking(platform: Platform, own: str | None) -> Iterator[Any]:
    """Send requests on one connection; responses arrive by a dynamic node or the node itself."""
    with connected(platform) as connection:
        if own is None:
            replies = connection.create_receiver(None, dynamic=True, credit=10)
            reply_to = replies.link.remote_source.address
        else:
            options = TargetAddress(own)
            replies = connection.create_receiver("$management", credit=10, options=options)
            reply_to = own
        requests = connection.create_sender("$management")

        def ask(body: object = None, **properties: object) -> Message:
            message = Message(id="question", reply_to=reply_to, properties=properties, body=body)
            requests.send(message)
            answer = replies.receive(timeout=20)
            assert answer.correlation_id == "question"
            assert answer.address == reply_to
            return answer

        yield ask


@pytest.mark.parametrize("own", [None, "my answers"])
def test_management_read_and_query_describe_addresses(platform: Platform, own: str | None) -> None:
    with asking(platform, own) as ask:

        def read(name: str) -> Message:
            return ask(operation="READ", type="enmasse.address", name=name)

        before = read("orders").body["depth"]
        send(platform, "parts", *numbered(0, 6))
        send(platform, "orders", *numbered(0, 4))
        stream = read("parts")
        assert stream.properties == {"statusCode": 200, "statusDescription": "OK"}
        partitions = stream.body["partitions"]
        assert [one["partition"] for one in partitions] == [0, 1, 2]
        held = sum(one["next"] - one["first"] for one in partitions)
        assert held == stream.body["depth"] > 0
        assert stream.body["uid"]
        queue = read("orders").body
        assert (queue["addressType"], queue["depth"] - before) == ("queue", 4)
        assert read("direct").body["consumers"] == 0
        absent = read("absent").properties
        assert absent["statusCode"] == 404
        assert "absent" in absent["statusDescription"]
        assert ask(operation="UPDATE").properties["statusCode"] == 501
        assert ask(operation="READ").properties["statusCode"] == 400
        listed = ask({"attributeNames": ["name", "addressType"]}, operation="QUERY").body
        assert listed["attributeNames"] == ["name", "addressType"]
        names = [["direct", "anycast"], ["orders", "queue"], ["parts", "topic"]]
        assert [row for row in listed["results"] if row in names] == names


def test_management_request_without_reply_to_is_rejected(platform: Platform) -> None:
    with connected(platform) as connection:
        requests = connection.create_sender("$management")
        with pytest.raises(SendException):
            requests.send(Message(properties={"operation": "QUERY"}))
