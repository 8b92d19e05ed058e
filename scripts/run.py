"""`make run`: start the platform, pass one message through it, say where things are.

It stays until Ctrl-C. Arguments go to `enmasse up` unchanged, except `--once`: stop after the first
message.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ENMASSE = Path(sys.executable).with_name("enmasse")
ADDRESS = "anycast"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0


def first_message(url: str) -> float:
    """Pass one message by command line; return the seconds from send to receipt."""
    receiver = subprocess.Popen(
        [ENMASSE, "receive", ADDRESS, "--url", url, "--count", "1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    started_at = time.perf_counter()
    subprocess.run(
        [ENMASSE, "send", ADDRESS, "--url", url, "--body", "hello from EnMasse"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    received, _ = receiver.communicate(timeout=READY_TIMEOUT_S)
    if receiver.returncode != 0 or "hello from EnMasse" not in received:
        raise SystemExit(f"the first message did not arrive; `enmasse receive` said: {received!r}")
    return time.perf_counter() - started_at


def welcome(ready: dict[str, Any], url: str) -> str:
    """The text a newcomer reads: endpoints and the next two commands."""
    places = "\n".join(
        f"  {name:6} {place['host']}:{place['port']}" for name, place in ready["endpoints"].items()
    )
    return f"""
EnMasse is up (pid {ready["pid"]}), and a first message has crossed it.

{places}

Try in a second terminal:
  .venv/bin/enmasse create address orders --type anycast
  .venv/bin/enmasse receive orders --url {url} &
  .venv/bin/enmasse send orders --url {url} --body hello
  .venv/bin/enmasse get addresses

Examples in Python and JavaScript: examples/. Ctrl-C stops it.
"""


def main(arguments: list[str]) -> int:
    once = "--once" in arguments
    arguments = [argument for argument in arguments if argument != "--once"]
    command = [str(ENMASSE), "up", "--output", "json", *arguments]
    platform = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert platform.stdout is not None
        line = platform.stdout.readline()
        if not line:
            return platform.wait()  # it has said why on stderr
        ready = json.loads(line)
        amqp = ready["endpoints"]["amqp"]
        url = f"amqp://{amqp['host']}:{amqp['port']}"
        first_message(url)
        print(welcome(ready, url), flush=True)
        return 0 if once else platform.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if platform.poll() is None:
            platform.terminate()
            platform.wait(STOP_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
