"""The examples, run as in their README: request-reply, competing-consumers, fan-out."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.clients import CACHE, CLIENTS
from platform_process import ENMASSE, Platform, Start

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
INTERPRETERS = {"client.py": sys.executable, "client.js": "node"}

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def examples(start_platform: Start) -> Platform:
    """A platform with the addresses of all examples; rhea is there for JavaScript."""
    CLIENTS["javascript"].prepare()
    manifests = sorted(EXAMPLES.glob("*/addresses.yaml"))
    return start_platform(*[part for path in manifests for part in ("-f", path)])


def command(example: str, program: str, platform: Platform, *arguments: str) -> list[str]:
    script = EXAMPLES / example / program
    return [INTERPRETERS[program], str(script), platform.url(), *arguments]


ENVIRONMENT = os.environ | {"NODE_PATH": str(CACHE / "javascript" / "node_modules")}


@contextmanager
def started(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Run programs until the block ends; each has printed `ready` before the block begins."""
    programs = [
        subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        for line in commands
    ]
    try:
        for program in programs:
            assert next_line(program) == "ready"
        yield programs
    finally:
        for program in programs:
            program.terminate()
            program.communicate(timeout=30)


def next_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


@pytest.mark.parametrize("program", INTERPRETERS)
def test_request_reply(examples: Platform, program: str) -> None:
    service = subprocess.Popen(
        [ENMASSE, "respond", "questions", "--url", examples.url()],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        done = subprocess.run(
            command("request-reply", program, examples, "how are you?"),
            env=ENVIRONMENT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        assert done.stdout.strip() == "how are you?"
    finally:
        service.terminate()
        service.communicate(timeout=30)


def test_competing_consumers(examples: Platform) -> None:
    count = 100
    workers = [command("competing-consumers", program, examples) for program in INTERPRETERS]
    with started(*workers) as (python, javascript):
        examples.enmasse("send", "jobs", "--url", examples.url(), "--count", str(count))
        # The send has ended, so every job is done and printed, each by one worker.
        for worker in (python, javascript):
            worker.terminate()
        done = [
            len(worker.communicate(timeout=30)[0].splitlines()) for worker in (python, javascript)
        ]
    assert sum(done) == count
    assert min(done) > 0, "both workers must receive jobs"


def test_fan_out(examples: Platform) -> None:
    listeners = [command("fan-out", program, examples) for program in INTERPRETERS]
    with started(*listeners) as programs:
        examples.enmasse("send", "news", "--url", examples.url(), "--body", "extra, extra")
        assert [next_line(program) for program in programs] == ["extra, extra"] * 2
