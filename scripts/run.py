"""`make run`: start the platform, pass one message through it, say where things are.

It stays until Ctrl-C or SIGTERM. Arguments go to `enmasse up` unchanged, except `--once`: stop
after the first message. That message needs an address that takes one from anybody: an `anycast`
address of an open space. Without one it is left out; the platform runs all the same.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from enmasse.base.settings import load
from enmasse.cli.connect.client import Api
from enmasse.cli.serve.hints import Meeting, meeting, next_commands
from enmasse.resources import Resource, parse

ENMASSE = Path(sys.executable).with_name("enmasse")
BODY = "hello from EnMasse"
MESSAGE_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10.0


def main(arguments: list[str]) -> int:
    """Run the platform until it ends or this is told to stop; return its exit code."""
    once = "--once" in arguments
    arguments = [argument for argument in arguments if argument != "--once"]
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    # A group of its own: Ctrl-C comes here alone and is passed on once; a second one ends it.
    platform = subprocess.Popen(
        [ENMASSE, "up", "--output", "json", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert platform.stdout is not None
        line = platform.stdout.readline()
        if not line:
            return platform.wait()  # it has said why on stderr
        ready = json.loads(line)
        data = data_folder(arguments)
        where = meeting(declared(data)) if "http" in ready["endpoints"] else None
        said = first_message(ready["endpoints"], where, data)
        print(welcome(ready, data, said, where), flush=True)
        return 0 if once else platform.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        stop(platform)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Take a signal as Ctrl-C is taken."""
    raise KeyboardInterrupt


def stop(platform: "subprocess.Popen[str]") -> None:
    """Tell the platform to stop, and see that it does."""
    if platform.poll() is None:
        platform.terminate()
        try:
            platform.wait(STOP_TIMEOUT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            platform.kill()


def data_folder(arguments: list[str]) -> Path:
    """Return the data folder that `enmasse up` has with these arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    parser.add_argument("--config", type=Path)
    given, _ = parser.parse_known_args(arguments)
    settings, _ = load({"data": given.data}, os.environ, given.config)
    return settings.data


def first_message(endpoints: dict[str, Any], where: Meeting | None, data: Path) -> str:
    """Pass one message by command line, if there is a way; return what to say of it."""
    for listener in ("amqp", "http"):
        if listener not in endpoints:
            return f"no first message was sent: --{listener}-port is off"
    if where is None:
        return "no first message was sent: no open address space has an anycast address"
    if passed(where, data):
        return "a first message has crossed it"
    return f"a first message did not arrive at address {where.address} of space {where.space}"


def passed(where: Meeting, data: Path) -> bool:
    """Send a message and receive it; return whether it came."""
    place = [where.address, "--space", where.space, "--data", str(data)]
    place += ["--timeout", str(MESSAGE_TIMEOUT_S)]
    receive = [ENMASSE, "receive", *place, "--count", "1"]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
        sent = subprocess.run(
            [ENMASSE, "send", *place, "--body", BODY], stdout=subprocess.DEVNULL, check=False
        )
        if sent.returncode != 0:
            receiver.terminate()
        received, _ = receiver.communicate()
    return sent.returncode == 0 and BODY in received


def declared(data: Path) -> list[Resource]:
    """Return what the platform of a data folder has."""
    with Api.find(data, None, None) as api:
        return [
            parse(document, stored=True)
            for plural in ("addressspaces", "messagingusers", "addresses")
            for document in api.list(plural, None)["items"]
        ]


def welcome(ready: dict[str, Any], data: Path, said: str, where: Meeting | None) -> str:
    """The text a newcomer reads: endpoints and the next commands."""
    places = "\n".join(
        f"  {name:6} {place['host']}:{place['port']}" for name, place in ready["endpoints"].items()
    )
    return f"""
EnMasse is up (process {ready["pid"]}): {said}.

{places}

{next_commands(where, data, ENMASSE)}
Examples in Python and JavaScript: examples/. Ctrl-C stops it.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
