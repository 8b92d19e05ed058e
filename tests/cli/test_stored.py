"""The commands for stored addresses, with a fake engine."""

import json
from typing import Any

import pytest

from cli_platform import Obeying
from enmasse.base.errors import Code, Exhausted
from enmasse.cli.output import printing
from enmasse.engines import AddressStatistics, Operation, Slice, SliceDone, StoredMessage
from enmasse.messaging import Message, Value


def test_create_address_declares_the_values_of_its_options(shop: Obeying) -> None:
    words = (
        "--type queue --deadletter dead --expiry dead --ttl-min 10s --ttl-max 1h --max-attempts 5"
        " --redelivery-delay 250 --durability memory --max-messages 100 --max-bytes 1GiB"
        " --max-message-size 64KiB --on-full reject --plan small"
    )
    created = shop.enmasse("create", "address", "tasks", *words.split(), "--output", "json")
    assert created.exit_code == 0, created.output
    document = json.loads(created.stdout)
    assert document["status"]["isReady"] is True
    assert document["spec"] == {
        "type": "queue",
        "address": "tasks",
        "plan": "small",
        "deadletter": "dead",
        "expiry": "dead",
        "messageTtl": {"minimum": 10_000, "maximum": 3_600_000},
        "messageRedelivery": {"maximumDeliveryAttempts": 5, "redeliveryDelay": 250},
        "durability": "memory",
        "limits": {
            "messages": 100,
            "bytes": 1 << 30,
            "messageSize": 65_536,
            "onFull": "reject",
        },
    }


def test_topics_streams_and_subscriptions_are_declared(shop: Obeying) -> None:
    for words, spec in (
        ("news --type topic", {"type": "topic"}),
        (
            "readings --type topic --retention-age 7d --retention-bytes 1GiB --partitions 4",
            {"retention": {"age": 604_800_000, "bytes": 1 << 30}, "partitions": 4},
        ),
        (
            "night --type subscription --topic news --max-consumers 3",
            {"topic": "news", "subscription": {"maxConsumers": 3}},
        ),
    ):
        created = shop.enmasse("create", "address", *words.split(), "--output", "json")
        assert created.exit_code == 0, created.output
        assert json.loads(created.stdout)["spec"].items() >= spec.items()


def test_invalid_option_value_is_reported_with_its_field(shop: Obeying) -> None:
    words = "bad --type queue --ttl-max forever"
    refused = shop.enmasse("create", "address", *words.split())
    assert refused.exit_code == 1
    assert "spec.messageTtl.maximum: 'forever' is not an integer" in refused.stderr
    dangling = shop.enmasse("create", "address", "bad", "--type", "queue", "--deadletter", "x")
    assert "references a dead letter address 'x' that does not exist" in dangling.stderr


def test_message_operation_continues_through_all_slices(shop: Obeying) -> None:
    shop.engine.answers = [SliceDone(1000, 5000, rest="a"), SliceDone(234, 1000)]
    done = shop.enmasse("purge", "orders", "--selector", "a = 1")
    assert done.stdout == "1,234 messages (6,000 bytes) purged from orders\n"
    uid = shop.address("orders").metadata.uid or ""
    assert shop.engine.managed == [
        (uid, Operation.PURGE, Slice(selector="a = 1")),
        (uid, Operation.PURGE, Slice(selector="a = 1", after="a")),
    ]


def test_limit_covers_all_slices_of_an_operation(shop: Obeying) -> None:
    shop.engine.answers = [SliceDone(1000, 1, rest="a"), SliceDone(200, 1, rest="b")]
    done = shop.enmasse("redrive", "dead", "--limit", "1200", "--dry-run", "--output", "json")
    assert json.loads(done.stdout) == {
        "operation": "redrive",
        "address": "dead",
        "dryRun": True,
        "messages": 1200,
        "bytes": 2,
    }
    assert [part.limit for _, _, part in shop.engine.managed] == [1000, 200]
    assert all(part.dry_run for _, _, part in shop.engine.managed)


@pytest.mark.parametrize(("command", "done"), [("move", "moved"), ("copy", "copied")])
def test_move_and_copy_report_their_target(shop: Obeying, command: str, done: str) -> None:
    shop.engine.answers = [SliceDone(3, 30)] * 2
    wet = shop.enmasse(command, "dead", "orders")
    assert wet.stdout == f"3 messages (30 bytes) {done} to orders from dead\n"
    dry = shop.enmasse(command, "default.dead", "orders", "--dry-run")
    assert dry.stdout == f"3 messages (30 bytes) would be {done} to orders from default.dead\n"
    assert {part.to for _, _, part in shop.engine.managed} == {shop.address("orders").metadata.uid}


def test_partial_progress_is_reported_before_a_failure(shop: Obeying) -> None:
    shop.engine.answers = [
        SliceDone(1000, 5000, rest="a"),
        Exhausted(Code.LIMIT_REACHED, "orders is full"),
    ]
    failed = shop.enmasse("move", "dead", "orders")
    assert failed.exit_code == 6
    assert failed.stdout == "1,000 messages (5,000 bytes) moved to orders from dead\n"
    assert failed.stderr == "enmasse: orders is full\n"


def test_unsupported_operation_is_a_one_line_error(shop: Obeying) -> None:
    refused = shop.enmasse("purge", "orders")
    assert refused.exit_code == 7
    assert (refused.stdout, refused.stderr) == ("", "enmasse: this node cannot purge\n")
    assert shop.enmasse("purge", "nothing").exit_code == 3


def test_peek_prints_messages_as_lines_or_json(shop: Obeying) -> None:
    found = [
        StoredMessage(7, "waiting", 1234, 0, message=Message(Value("one\nespresso"))),
        StoredMessage(8, "delayed", 99_999, 0, attempts=2, message=Message(Value(3))),
        StoredMessage(9, "waiting", 100_000, 0),
    ]
    shop.engine.answers = [SliceDone(3, 1, found=found, rest="a"), SliceDone(0, 0)] * 2
    lines = shop.enmasse("peek", "orders").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["ID", "STATE", "ENQUEUED", "ATTEMPTS", "BYTES", "BODY"],
        ["7", "waiting", "1970-01-01T00:00:00Z", "0", "1,234", "one", "espresso"],
        ["8", "delayed", "1970-01-01T00:00:00Z", "2", "99,999", "3"],
        ["9", "waiting", "1970-01-01T00:00:00Z", "0", "100,000", "(too", "large", "to", "show)"],
    ]
    shown = json.loads(shop.enmasse("peek", "orders", "--output", "json").stdout)
    assert [one["id"] for one in shown["items"]] == [7, 8, 9]
    assert [part.limit for _, _, part in shop.engine.managed] == [100, 97, 100, 97]


def statistics(shop: Obeying, stored: int) -> list[AddressStatistics]:
    uid = shop.address("orders").metadata.uid or ""
    return [AddressStatistics(uid, "default.default", "orders", stored=stored, stored_bytes=9)]


def declared(shop: Obeying) -> set[str]:
    return {one.metadata.name for one in shop.store.list("Address")}


def test_empty_address_is_deleted_without_force(shop: Obeying) -> None:
    shop.engine.statistics = statistics(shop, 0)
    assert shop.enmasse("delete", "address", "orders", "dead").exit_code == 0
    assert declared(shop) == set()


def test_delete_of_an_address_with_messages_requires_force(shop: Obeying) -> None:
    shop.engine.statistics = statistics(shop, 1234)
    refused = shop.enmasse("delete", "address", "dead", "orders")
    assert refused.exit_code == 5
    assert refused.stderr == (
        "enmasse: orders holds 1,234 messages; add --force to delete them too\n"
    )
    assert declared(shop) == {"default.dead", "default.orders"}
    assert shop.enmasse("delete", "address", "orders", "--force").exit_code == 0
    assert declared(shop) == {"default.dead"}


def test_delete_of_a_space_with_messages_requires_force(shop: Obeying) -> None:
    shop.engine.statistics = statistics(shop, 2)
    refused = shop.enmasse("delete", "addressspace", "default")
    assert refused.exit_code == 5
    assert refused.stderr == "enmasse: orders holds 2 messages; add --force to delete them too\n"
    assert shop.enmasse("delete", "addressspace", "default", "--force").exit_code == 0
    assert declared(shop) == set()


def test_subscription_may_be_named_with_its_topic(shop: Obeying) -> None:
    for words in ("news --type topic", "night --type subscription --topic news"):
        assert shop.enmasse("create", "address", *words.split()).exit_code == 0
    listed = shop.enmasse("get", "addresses", "news::night").stdout.splitlines()
    assert listed[1].split()[:2] == ["news::night", "subscription"]
    shop.engine.answers = [SliceDone(1, 1)] * 2
    for name in ("news::night", "night"):
        assert shop.enmasse("purge", name).stdout == f"1 messages (1 bytes) purged from {name}\n"
    assert shop.enmasse("delete", "address", "news::night").exit_code == 0


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1)])
def test_delete_with_messages_asks_for_confirmation_on_a_terminal(
    shop: Obeying, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr(printing, "is_interactive", lambda: True)
    shop.engine.statistics = statistics(shop, 5)
    asked: Any = shop.enmasse("delete", "address", "orders", stdin=answer)
    assert "orders holds 5 messages. Delete them too? [y/N]" in asked.output
    assert asked.exit_code == left
    assert ("default.orders" in declared(shop)) is bool(left)


def test_apply_orders_documents_by_their_references(shop: Obeying, tmp_path: Any) -> None:
    file = tmp_path / "addresses.yaml"
    file.write_text(
        "\n---\n".join(
            "apiVersion: enmasse.io/v1beta1\nkind: Address\n"
            f"metadata: {{name: default.{name}}}\nspec: {{address: {name}, {spec}}}\n"
            for name, spec in (
                ("night", "type: subscription, topic: news"),
                ("news", "type: topic, deadletter: lost"),
                ("lost", "type: deadletter"),
            )
        )
    )
    applied = shop.enmasse("apply", "-f", str(file))
    assert applied.exit_code == 0, applied.output
    assert [line.split()[1] for line in applied.stdout.splitlines()] == [
        "default.lost",
        "default.news",
        "default.night",
    ]
