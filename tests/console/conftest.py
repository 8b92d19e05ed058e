"""A browser at the console of a running platform."""

import base64
import json
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)
from playwright.sync_api import Error as PlaywrightError
from proton import Message
from proton.utils import BlockingConnection

from enmasse.resources.naming import resource_name
from platform_process import Platform, running

CHROMIUM = "/usr/bin/chromium"
# The others keep the browser from asking its maker's hosts, which are not there.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_MS = 60_000
HEIGHT = 900
"""Of a browser window, in pixels."""
EXCHANGES_MAX = 40
SNAPSHOT_MS = 5_000
expect.set_options(timeout=WAIT_MS)
EXPECTED = re.compile(r"/console/session$|dryRun=All|/report$")
"""Requests that may be refused: the first question of the page, the checks of a form, and the
report of a pipeline that does not run.
"""

HOSTILE_NAMES = (
    'it\'s "quoted"',
    "<script>document.title='run'</script>",
    "عربي-طلبات",
    "a$(reboot) `id` | ;",
    "L" * 1024,
)
"""Addresses that a tenant may declare and that must be shown, quoted and sent as they are."""


@dataclass
class Console:
    """The console in one browser, with what went wrong in it."""

    page: Page
    platform: Platform
    scheme: str = "http"
    problems: list[str] = field(default_factory=list)
    exchanges: deque[str] = field(default_factory=lambda: deque(maxlen=EXCHANGES_MAX))
    """The last requests and responses, for the report of a failed test."""

    @property
    def base(self) -> str:
        return f"{self.platform.url(self.scheme)}/console"

    def open(self, path: str) -> Page:
        """Open a page of the console and wait for its heading."""
        self.page.goto(self.base + path)
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def log_in(self, token: str | None = None) -> None:
        """Log in by an API token; by default the owner's. The login page has its own tests."""
        given = token or (self.platform.data / "token").read_text().strip()
        answer = self.page.context.request.post(f"{self.base}/session", data={"token": given})
        assert answer.status == 201, answer.text()

    def expect_no_problems(self) -> None:
        assert not self.problems


def observe(console: Console) -> None:
    """Record exceptions, refusals of the content policy and requests to other hosts."""
    page = console.page

    def on_response(response: Response) -> None:
        is_expected = response.status < 500 and EXPECTED.search(response.url)
        console.exchanges.append(f"{response.status} {response.request.method} {response.url}")
        if response.status >= 400 and not is_expected:
            console.problems.append(f"{response.status} {response.url}")

    def on_console(message: object) -> None:
        text = getattr(message, "text", "")
        if "Content Security Policy" in text or "Minified React error" in text:
            console.problems.append(text)

    page.on("pageerror", lambda error: console.problems.append(str(error)))
    page.on("console", on_console)
    page.on("response", on_response)

    def on_request(request: Request) -> None:
        console.exchanges.append(f"... {request.method} {request.url}")
        if not request.url.startswith((console.platform.url(console.scheme), "data:", "blob:")):
            console.problems.append(f"another host: {request.url}")

    page.on("request", on_request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the page showed and asked for to the report of a failed test."""
    report = yield
    console = getattr(item, "funcargs", {}).get("console")
    if report.failed and call.when == "call" and isinstance(console, Console):
        report.sections.append(("Requests of the page", "\n".join(console.exchanges)))
        with suppress(PlaywrightError):
            shown = console.page.locator("body").aria_snapshot(timeout=SNAPSHOT_MS)
            report.sections.append(("Page", shown))
    return report


# Not for the session: Playwright runs an event loop in this thread, and other files of the same
# process run their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        with closing(launched):
            yield launched


# One for all files that a process runs: each has spaces of its own.
@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform as it is on first start."""
    with running(tmp_path_factory.mktemp("console")) as started:
        yield started


@contextmanager
def console_in(
    browser: Browser,
    platform: Platform,
    *,
    width: int = 1440,
    theme: str = "light",
    scheme: str = "http",
) -> Iterator[Console]:
    """The console in a browser window of its own, not logged in."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme="dark" if theme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
        # Signed by the platform's own authority.
        ignore_https_errors=True,
    )
    context.set_default_timeout(WAIT_MS)
    with closing(context):
        console = Console(context.new_page(), platform, scheme)
        observe(console)
        yield console


@pytest.fixture
def console(browser: Browser, platform: Platform) -> Iterator[Console]:
    """The console, with the owner logged in; a test that leaves problems in it fails."""
    with console_in(browser, platform) as opened:
        opened.log_in()
        yield opened
        opened.expect_no_problems()


def put_space(platform: Platform, name: str, **spec: Any) -> None:
    """Declare a space in the namespace of the same name."""
    put(platform, name, "AddressSpace", name, {"type": "standard", **spec})


def put_address(platform: Platform, space: str, name: str, type_: str, **spec: Any) -> None:
    """Declare an address in a space of the namespace of the same name."""
    put(
        platform,
        space,
        "Address",
        resource_name(space, name),
        {"address": name, "type": type_, **spec},
    )


def put_user(platform: Platform, space: str, name: str, password: str, *rights: Any) -> None:
    """Declare a user of a space of the namespace of the same name."""
    encoded = base64.b64encode(password.encode()).decode()
    put(
        platform,
        space,
        "MessagingUser",
        resource_name(space, name),
        {
            "username": name,
            "authentication": {"type": "password", "password": encoded},
            "authorization": list(rights),
        },
    )


def put(platform: Platform, namespace: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    """Create a resource by the API, which takes a tenth of a command's time, and wait until it is
    ready.
    """
    plural = {"Address": "addresses"}.get(kind, f"{kind.lower()}s")
    path = f"/apis/enmasse.io/v1beta1/namespaces/{namespace}/{plural}"
    document = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    with api_client(platform) as api:
        if kind == "AddressSpace":
            api.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
        answer = api.post(path, json=document)
        assert answer.status_code == 201, answer.text
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "timeoutSeconds": str(WAIT_MS // 1000),
        }
        with api.stream("GET", path, params=query) as events:
            for line in events.iter_lines():
                if json.loads(line)["object"].get("status", {}).get("isReady"):
                    return
    raise AssertionError(f"{kind} {name} is not ready")


def api_client(platform: Platform) -> httpx2.Client:
    """A client of the API with the owner's token."""
    token = (platform.data / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=platform.url("http"), headers=headers, timeout=WAIT_MS / 1000)


def send(platform: Platform, space: str, address: str, *bodies: str) -> None:
    """Send messages to an address of a space of the namespace of the same name."""
    with closing(connect(platform, space)) as connection:
        sender = connection.create_sender(address)
        for number, body in enumerate(bodies):
            sender.send(
                Message(body=body, id=f"m{number}", properties={"number": number}, durable=True)
            )


def connect(platform: Platform, space: str, **options: str) -> BlockingConnection:
    return BlockingConnection(
        platform.url(),
        timeout=20,
        virtual_host=f"{space}.{space}",
        **({"allowed_mechs": "ANONYMOUS"} | options),
    )


def get_json(platform: Platform, path: str) -> dict[str, object]:
    """Read from the API with the owner's token."""
    with api_client(platform) as api:
        answer = api.get(path)
    answer.raise_for_status()
    found: dict[str, object] = answer.json()
    return found


def space_path(space: str, below: str = "") -> str:
    return f"/spaces/{space}/{space}" + (f"/{below}" if below else "")


def address_path(space: str, resource: str, below: str = "") -> str:
    return space_path(space, f"addresses/{quote(resource, safe='')}") + (
        f"/{below}" if below else ""
    )


ROOT = Path(__file__).parents[2]
AXE = ROOT / "console/node_modules/axe-core/axe.min.js"


def serious_violations(page: Page) -> list[str]:
    """What axe-core finds that is serious or critical: the rule and the elements."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
