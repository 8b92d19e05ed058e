"""`make run`: start the platform, pass one message through it, print the endpoints.

It runs until Ctrl-C or SIGTERM. Arguments go to `enmasse up` unchanged, except `--once`: stop after
the first message. That message needs an `anycast` address of a space that admits everyone. Without
one the platform runs without a first message.
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
from enmasse.cli.serve.hints import (
    SuggestedAddress,
    console_url,
    invocation,
    next_commands,
    suggested_address,
)
from enmasse.resources import Resource, parse

ENMASSE = Path(sys.executable).with_name("enmasse")
BODY = "hello from EnMasse"
MESSAGE_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10.0


def main(arguments: list[str]) -> int:
    """Run the platform until it ends or is stopped; return its exit code."""
    once = "--once" in arguments
    arguments = [argument for argument in arguments if argument != "--once"]
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    # A process group of its own: this process receives Ctrl-C and forwards it once.
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
            return platform.wait()  # It has printed the reason on stderr.
        ready = json.loads(line)
        data = data_folder(arguments)
        where = suggested_address(declared(data)) if "http" in ready["endpoints"] else None
        result = first_message(ready["endpoints"], where, data)
        print(welcome(ready, data, result, where), flush=True)
        return 0 if once else platform.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        stop(platform)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal like Ctrl-C."""
    raise KeyboardInterrupt


def stop(platform: "subprocess.Popen[str]") -> None:
    """Stop the platform, and kill it if it does not end."""
    if platform.poll() is None:
        platform.terminate()
        try:
            platform.wait(STOP_TIMEOUT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            platform.kill()


def data_folder(arguments: list[str]) -> Path:
    """Return the data folder of `enmasse up` with these arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    parser.add_argument("--config", type=Path)
    given, _ = parser.parse_known_args(arguments)
    settings, _ = load({"data": given.data}, os.environ, given.config)
    return settings.data


def first_message(endpoints: dict[str, Any], where: SuggestedAddress | None, data: Path) -> str:
    """Pass one message by command line if possible; return the result as text."""
    for listener in ("amqp", "http"):
        if listener not in endpoints:
            return f"no first message was sent: --{listener}-port is off"
    if where is None:
        return "no first message was sent: no open address space has an anycast address"
    if passed(where, data):
        return "a first message has crossed it"
    return f"a first message did not arrive at address {where.address} of space {where.space}"


def passed(where: SuggestedAddress, data: Path) -> bool:
    """Send a message and receive it; return whether it arrived."""
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
    """Return the resources of the platform with a data folder."""
    with Api.find(data, None, None) as api:
        return [
            parse(document, stored=True)
            for plural in ("addressspaces", "messagingusers", "addresses")
            for document in api.list(plural, None)["items"]
        ]


def console(endpoints: dict[str, Any], data: Path) -> str:
    """Return where the console is and the command that opens it; empty without an HTTP listener."""
    link = console_url({name: (one["host"], one["port"]) for name, one in endpoints.items()})
    if link is None:
        return ""
    return f"Console: {link}\n  {invocation(ENMASSE)} console --data {data}\n\n"


def welcome(ready: dict[str, Any], data: Path, result: str, where: SuggestedAddress | None) -> str:
    """Return the first text for the user: endpoints and the next commands."""
    places = "\n".join(
        f"  {name:6} {place['host']}:{place['port']}" for name, place in ready["endpoints"].items()
    )
    return f"""
EnMasse is up (process {ready["pid"]}): {result}.

{places}

{console(ready["endpoints"], data)}{next_commands(where, data, ENMASSE)}
Examples in Python and JavaScript: examples/. Ctrl-C stops it.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
