"""The scenarios of MQTT with mosquitto_pub and mosquitto_sub; the contract is in the README two
folders up.
"""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Options = dict[str, Any]
VERSIONS = {3: "mqttv311", 5: "mqttv5"}


def arguments(
    options: Options, client_id: str | None = None, kept: int = 0, version: int | None = None
) -> list[str]:
    """What both tools take. `kept`: seconds that the session outlives the connection."""
    version = version or options["version"]
    found = ["-h", options["host"], "-p", str(options["port"]), "-V", VERSIONS[version]]
    if "user" in options:
        found += ["-u", options["user"], "-P", options["password"]]
    if "ca" in options:
        found += ["--cafile", options["ca"]]
    if client_id is not None:
        found += ["-i", client_id]
    if kept:
        found += ["-c", "-x", str(kept)] if version == 5 else ["-c"]
    return found


class Subscriber:
    """A running mosquitto_sub that prints JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._messages: list[Options] = []

    def _read(self, until: Callable[[str], bool]) -> None:
        """Read lines, and keep those that are messages, until one matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self._messages.append(json.loads(line))
            if until(line):
                return
        sys.exit("mosquitto_sub has ended")

    def ready(self) -> None:
        """Wait until it is subscribed. A resumed session may have messages before."""
        self._read(lambda line: line.startswith("Subscribed"))

    def take(self, count: int) -> list[Options]:
        """The next messages."""
        if len(self._messages) < count:
            self._read(lambda _line: len(self._messages) >= count)
        found, self._messages = self._messages[:count], self._messages[count:]
        return found


@contextmanager
def subscribed(
    options: Options, topic: str, qos: int, *more: str, client_id: str | None = None, kept: int = 0
) -> Iterator[Subscriber]:
    command = ["mosquitto_sub", *arguments(options, client_id, kept), "-t", topic, "-q", str(qos)]
    with subprocess.Popen(
        ["stdbuf", "-oL", *command, "-d", "-F", "%j", *more], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            one = Subscriber(process)
            one.ready()
            yield one
        finally:
            process.terminate()


def publishes(
    options: Options,
    topic: str,
    bodies: list[str],
    qos: int,
    *more: str,
    version: int | None = None,
) -> None:
    command = ["mosquitto_pub", *arguments(options, version=version), "-t", topic, "-q", str(qos)]
    command += ["-l", *more]
    subprocess.run(command, input="".join(f"{body}\n" for body in bodies), text=True, check=True)


def exchange(options: Options) -> Options:
    topic, count = options["topic"], options["count"]
    bodies = [chr(ord("a") + number % 26) * options["size"] for number in range(count)]
    version = options.get("publish_version")
    name = options.get("client_id")
    kept = 600 if name else 0
    with subscribed(options, topic, options["qos"], client_id=name, kept=kept) as receiver:
        publishes(options, topic, bodies, options["publish_qos"], version=version)
        found = receiver.take(count)
    return {
        "received": len(found),
        "in_order": [one["payload"] for one in found] == bodies,
        "qos": sorted({one["qos"] for one in found}),
    }


def retained(options: Options) -> Options:
    topic = options["topic"]
    publishes(options, topic, ["first"], 1, "-r")
    with subscribed(options, topic, 1) as receiver:
        (kept,) = receiver.take(1)
    clearing = ["mosquitto_pub", *arguments(options), "-t", topic, "-q", "1", "-r", "-n"]
    subprocess.run(clearing, check=True)
    with subscribed(options, topic, 1) as receiver:
        publishes(options, topic, ["second"], 1)
        (after,) = receiver.take(1)
    return {
        "kept": kept["payload"],
        "retained": [bool(kept["retain"]), bool(after["retain"])],
        "after_clearing": after["payload"],
    }


def will(options: Options) -> Options:
    topic = options["topic"]
    testament = ["--will-topic", topic, "--will-payload", "gone", "--will-qos", "1"]
    with subscribed(options, topic, 1) as watcher:
        with subscribed(options, f"{topic}/other", 0, *testament) as victim:
            victim.process.kill()
        (found,) = watcher.take(1)
    return {"will": found["payload"]}


def shared(options: Options) -> Options:
    topic, count = options["topic"], options["count"]
    name = f"$share/{options['group']}/{topic}"
    arrived: queue.Queue[tuple[int, str]] = queue.Queue()

    def consume(number: int, member: Subscriber) -> None:
        while True:
            arrived.put((number, member.take(1)[0]["payload"]))

    with subscribed(options, name, 1) as one, subscribed(options, name, 1) as other:
        for both in enumerate((one, other)):
            threading.Thread(target=consume, args=both, daemon=True).start()
        publishes(options, topic, [str(number) for number in range(count)], 1)
        found = [arrived.get() for _ in range(count)]
    return {
        "received": len(found),
        "distinct": len({body for _, body in found}),
        "each": len({member for member, _ in found}) == 2,
    }


def resume(options: Options) -> Options:
    topic, count, name = options["topic"], options["count"], options["client_id"]
    with subscribed(options, topic, 1, client_id=name, kept=600):
        pass
    publishes(options, topic, [str(number) for number in range(count)], 1)
    with subscribed(options, topic, 1, client_id=name, kept=600) as again:
        found = again.take(count)
    return {"received": [int(one["payload"]) for one in found]}


def properties(options: Options) -> Options:
    topic, given = options["topic"], []
    for name, *values in (
        ("content-type", "text/plain"),
        ("response-topic", "answers"),
        ("correlation-data", "12"),
        ("user-property", "a", "1"),
        ("user-property", "a", "2"),
        ("message-expiry-interval", "60"),
        ("payload-format-indicator", "1"),
    ):
        given += ["-D", "publish", name, *values]
    with subscribed(options, topic, 1) as receiver:
        publishes(options, topic, ["hot"], 1, *given)
        (found,) = receiver.take(1)
    got = found["properties"]
    return {
        "content_type": got["content-type"],
        "response_topic": got["response-topic"],
        "correlation": got["correlation-data"].encode().hex(),
        "expires": 0 < got["message-expiry-interval"] <= 60,
        "format": got["payload-format-indicator"],
    }


def publish(options: Options) -> Options:
    publishes(options, options["topic"], options["bodies"], options["qos"])
    return {"published": len(options["bodies"])}


def consume(options: Options) -> Options:
    with subscribed(options, options["topic"], options["qos"]) as receiver:
        found = receiver.take(options["count"])
    return {"received": [one["payload"] for one in found]}


def request(options: Options) -> Options:
    """mosquitto_rr asks, and a subscriber answers to the response topic."""
    topic = options["topic"]
    with subscribed(options, topic, 1) as answerer:
        command = ["mosquitto_rr", *arguments(options), "-t", topic, "-q", "1", "-m", "how hot?"]
        asking = subprocess.Popen(
            [*command, "-e", f"{topic}/answers"], stdout=subprocess.PIPE, text=True
        )
        (asked,) = answerer.take(1)
        publishes(options, asked["properties"]["response-topic"], ["21.5"], 1)
        answer, _ = asking.communicate(timeout=60)
    return {"answer": answer.strip()}


def refused(options: Options) -> Options:
    command = ["mosquitto_pub", *arguments(options), "-t", "none", "-m", "", "-q", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    return {"refused": done.stderr.strip()} if done.returncode else {}


SCENARIOS = (
    *(exchange, retained, will, shared, resume, properties),
    *(publish, consume, request, refused),
)

if __name__ == "__main__":
    scenario = {one.__name__: one for one in SCENARIOS}[sys.argv[1]]
    print(json.dumps(scenario(json.loads(sys.argv[2]))))
