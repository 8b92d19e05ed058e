"""A Kafka broker on loopback, and the jars by which Spark reads it: the control for streams."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers import CACHE, await_port, free_port, stop

POMS = Path(__file__).parent / "jars"
HEAP = "-Xmx512m"
CLUSTER = "A" * 22

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=2
auto.create.topics.enable=true
offsets.topic.replication.factor=1
"""


@dataclass(frozen=True)
class Broker:
    """A running broker. The first write creates a topic, with two partitions."""

    process: int
    address: str


def jars(of: str) -> list[Path]:
    """Return the jars of `kafka-broker` or `kafka-connector`; Maven fetches missing ones."""
    folder = CACHE / of
    if not folder.is_dir():
        fresh = folder.with_suffix(".new")
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        words = ["mvn", "-q", "-B", *copy, f"-DoutputDirectory={fresh}"]
        subprocess.run([*words, "-f", POMS / of / "pom.xml"], check=True)
        fresh.rename(folder)
    return sorted(folder.glob("*.jar"))


@contextmanager
def kafka(folder: Path) -> Iterator[Broker]:
    """Start a broker with its files in a folder, and stop it.

    Raises Unavailable, of `servers`, if it does not start.
    """
    folder.mkdir()
    controller, broker = free_port(), free_port()
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(controller=controller, broker=broker, folder=folder), encoding="utf-8"
    )
    java = ["java", HEAP, "-cp", ":".join(map(str, jars("kafka-broker")))]
    storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
    with (folder / "output").open("w") as output:
        subprocess.run([*java, *storage], check=True, stdout=output, stderr=output)
        words = [*java, "kafka.Kafka", str(properties)]
        process = subprocess.Popen(words, stdout=output, stderr=output, text=True)
        try:
            await_port(broker, process, "Kafka")
            yield Broker(process.pid, f"127.0.0.1:{broker}")
        finally:
            stop(process)
