"""Many customers at once, T-ST-6 of docs/acceptance.md."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import ConnectionException

from platform_process import Platform, running
from proton_client import PASSWORD, connected, document, numbered, send, take, user

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CUSTOMERS, QUEUES, USERS, MESSAGES = 10, 10, 5, 43
GIVEN = "/apis/enmasse.io/v1beta1/namespaces/default"


class Customer:
    """Declares queues and users, lets every user use every queue, and removes the users."""

    def __init__(self, platform: Platform, number: int) -> None:
        self._platform = platform
        self.queues = [f"customer-{number}-queue-{queue}" for queue in range(QUEUES)]
        self.users = [f"customer-{number}-user-{user}" for user in range(USERS)]
        token = (platform.data / "token").read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx2.Client(
            base_url=platform.url("http") + GIVEN, headers=headers, timeout=120
        )

    def run(self) -> None:
        with self._http:
            for name in self.queues:
                self._declare("Address", "addresses", name, {"address": name, "type": "queue"})
            for name in self.users:
                self._declare("MessagingUser", "messagingusers", name, self._user(name))
            with ThreadPoolExecutor(USERS) as threads:
                list(threads.map(self._use, self.users, range(USERS)))
            for name in self.users:
                gone = self._http.delete(f"/messagingusers/default.{name}")
                assert gone.status_code == 200

    def _user(self, name: str) -> dict[str, Any]:
        password = base64.b64encode(PASSWORD.encode()).decode()
        return {
            "username": name,
            "authentication": {"type": "password", "password": password},
            "authorization": [{"addresses": self.queues, "operations": ["send", "recv"]}],
        }

    def _declare(self, kind: str, plural: str, name: str, spec: dict[str, Any]) -> None:
        resource = {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": kind,
            "metadata": {"name": f"default.{name}"},
            "spec": spec,
        }
        assert self._http.post(f"/{plural}", json=resource).status_code == 201
        deadline = time.monotonic() + 120
        while not self._is_ready(f"/{plural}/default.{name}"):
            assert time.monotonic() < deadline, f"{name} is not ready"

    def _is_ready(self, path: str) -> bool:
        status = self._http.get(path).json().get("status", {})
        return bool(status.get("isReady")) or status.get("phase") == "Active"

    def _use(self, user: str, first: int) -> None:
        for number in range(QUEUES):
            # Each user starts with another queue, so that no two use one queue at a time.
            name = self.queues[(first * 2 + number) % QUEUES]
            send(self._platform, name, *numbered(0, MESSAGES), **login(user))
            with connected(self._platform, **login(user)) as connection:
                receiver = connection.create_receiver(name, credit=MESSAGES)
                assert len(take(receiver, MESSAGES)) == MESSAGES


def login(user: str) -> dict[str, Any]:
    return {"user": user, "password": PASSWORD, "allowed_mechs": "PLAIN"}


def test_T_ST_6_many_customers_work_concurrently(tmp_path: Path) -> None:
    keeper = user("keeper")  # Without users, a space that names no service would be open.
    with running(tmp_path / "data", "-f", str(document(tmp_path, keeper))) as platform:
        customers = [Customer(platform, number) for number in range(CUSTOMERS)]
        with ThreadPoolExecutor(CUSTOMERS) as threads:
            list(threads.map(Customer.run, customers))
        for customer in customers[:2]:
            with (
                pytest.raises(ConnectionException),
                connected(platform, **login(customer.users[0])),
            ):
                pass
