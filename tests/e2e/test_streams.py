"""Streams of a platform process: repeated reads, start positions, and a `kill -9`."""

from pathlib import Path

import pytest
from proton import Described, Link, Message, symbol, timestamp, uint, ulong
from proton.reactor import AtMostOnce, Filter, LinkOption
from proton.utils import LinkDetached

from platform_process import Platform, Start, running
from proton_client import address, connected, document, send

pytestmark = pytest.mark.timeout(180)

STREAMS = (
    address("events", "topic", retention="{bytes: 1GiB}"),
    address("parts", "topic", retention="{bytes: 1GiB}", partitions=3),
    address("short", "topic", retention="{bytes: 64KiB}"),
    address("once", "topic", retention="{age: 7d}", duplicateDetection="{}"),
)


@pytest.fixture(scope="module")
def streams(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with some streams."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *STREAMS))


def begin(offset: object, partition: int | None = None) -> list[LinkOption]:
    """Options of a receiver that begins at an offset."""
    filters = {"rabbitmq:stream-offset-spec": offset}
    if partition is not None:
        filters["enmasse:stream-partition"] = uint(partition)
    described = {symbol(name): Described(symbol(name), value) for name, value in filters.items()}
    return [AtMostOnce(), Filter(described)]


def read(
    platform: Platform, name: str, count: int, offset: object, partition: int | None = None
) -> list[Message]:
    """Read `count` messages."""
    with connected(platform) as connection:
        options = begin(offset, partition)
        receiver = connection.create_receiver(name, credit=count, options=options)
        return [receiver.receive(timeout=20) for _ in range(count)]


def offsets(messages: list[Message]) -> list[int]:
    return [int(message.annotations["x-stream-offset"]) for message in messages]


def test_stream_is_read_from_the_requested_position(streams: Platform) -> None:
    send(streams, "events", *(Message(body=f"m{n}", id=f"id-{n}") for n in range(20)))
    everything = read(streams, "events", 20, "first")
    assert [message.body for message in everything] == [f"m{n}" for n in range(20)]
    assert offsets(everything) == list(range(20))
    times = [int(message.annotations["x-opt-enqueued-time"]) for message in everything]
    assert times == sorted(times)
    assert {int(message.annotations["x-opt-partition"]) for message in everything} == {0}
    assert offsets(read(streams, "events", 1, "last")) == [19]
    assert offsets(read(streams, "events", 5, ulong(15))) == [15, 16, 17, 18, 19]
    (found,) = read(streams, "events", 1, timestamp(times[7]))
    assert int(found.annotations["x-opt-enqueued-time"]) >= times[7]
    assert offsets([found])[0] <= 7
    with connected(streams) as connection:
        late = connection.create_receiver("events", credit=1, options=begin("next"))
        send(streams, "events", Message(body="new"))
        assert late.receive(timeout=20).body == "new"


def test_partition_is_chosen_by_annotation_or_group_id(streams: Platform) -> None:
    said = Message(body="said", annotations={symbol("x-opt-partition"): uint(2)})
    send(streams, "parts", said, *(Message(body=n, group_id="g") for n in range(5)))
    (message,) = read(streams, "parts", 1, ulong(0), partition=2)
    assert message.body == "said"
    grouped = [one for one in read(streams, "parts", 6, "first") if one.body != "said"]
    assert [message.body for message in grouped] == list(range(5))
    assert len({int(message.annotations["x-opt-partition"]) for message in grouped}) == 1
    with connected(streams) as connection:
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver("parts", options=begin(ulong(0)))
        assert refused.value.condition == "amqp:invalid-field"


def test_offset_removed_by_retention_is_refused_with_the_first_offset(streams: Platform) -> None:
    send(streams, "short", *(Message(body="x" * 4000) for _ in range(40)))
    (oldest,) = read(streams, "short", 1, "first")
    first = offsets([oldest])[0]
    assert first > 0
    with connected(streams) as connection:
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver("short", options=begin(ulong(first - 1)))
        assert refused.value.condition == "amqp:precondition-failed"
        assert str(first - 1) in str(refused.value)
        assert str(first) in str(refused.value)


def test_duplicate_message_gets_no_offset(streams: Platform) -> None:
    send(streams, "once", *(Message(body=name, id=name) for name in ("a", "b", "a", "c")))
    messages = read(streams, "once", 3, "first")
    assert [message.body for message in messages] == ["a", "b", "c"]
    assert offsets(messages) == [0, 1, 2]


def test_attach_of_a_reader_returns_partitions_and_offsets(streams: Platform) -> None:
    with connected(streams) as connection:
        receiver = connection.create_receiver("parts", options=begin("next"))
        link: Link = receiver.link
        said = link.remote_properties[symbol("enmasse:stream")]
        assert [one["partition"] for one in said["partitions"]] == [0, 1, 2]
        assert all(one["first"] <= one["next"] for one in said["partitions"])
        assert said["uid"]


def test_accepted_stream_messages_survive_kill_9(tmp_path: Path) -> None:
    documents = document(tmp_path, *STREAMS)
    data = tmp_path / "data"
    with running(data, "-f", str(documents)) as platform:
        send(platform, "events", *(Message(body=f"m{n}") for n in range(200)))
        before = read(platform, "events", 200, "first")
        platform.kill()
    with running(data) as platform:
        after = read(platform, "events", 200, "first")
        assert [one.body for one in after] == [one.body for one in before]
        assert offsets(after) == list(range(200))
        send(platform, "events", Message(body="more"))
        (more,) = read(platform, "events", 1, ulong(200))
        assert more.body == "more"
