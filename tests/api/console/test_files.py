"""The files of the console and the headers of its pages."""

import gzip
from pathlib import Path

import httpx2
import pytest

from asgi_platform import Served
from enmasse.api.console import files
from enmasse.api.console.files import read

SCRIPT = "console.log('x');\n" * 100


@pytest.fixture
def built(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a built console, which the platform serves."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>console</title>")
    (tmp_path / "assets/index-1a2b3c.js").write_text(SCRIPT)
    (tmp_path / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret").symlink_to("/etc/passwd")
    monkeypatch.setattr(served.console_files, "_folder", tmp_path)
    return tmp_path


async def test_root_leads_to_the_console(served: Served) -> None:
    async with served.client() as http:
        for path in ("/", "/console"):
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["location"]) == (307, "/console/")


async def test_without_a_build_the_page_says_how_to_make_one(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(served.console_files, "_folder", tmp_path)
    async with served.client() as http:
        answer = await http.get("/console/")
    assert answer.status_code == 200
    assert "make setup" in answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_deep_links_answer_the_page_and_missing_assets_do_not(
    served: Served, built: Path
) -> None:
    async with served.client() as http:
        for path in ("/console/", "/console/namespaces/shop/addresses", "/console/login"):
            answer = await http.get(path)
            assert answer.text == "<!doctype html><title>console</title>"
            assert answer.headers["cache-control"] == "no-cache"
        missing = await http.get("/console/assets/gone-1.js")
        assert missing.status_code == 404
        assert (await http.post("/console/x")).status_code == 405


async def test_assets_are_immutable_and_compressed(served: Served, built: Path) -> None:
    async with served.client() as http:
        packed = await http.get("/console/assets/index-1a2b3c.js")
        assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.text == SCRIPT
        plain = await http.get(
            "/console/assets/index-1a2b3c.js", headers={"Accept-Encoding": "identity"}
        )
        assert "content-encoding" not in plain.headers
        assert plain.text == SCRIPT


async def test_a_client_with_the_file_gets_304(served: Served, built: Path) -> None:
    async with served.client() as http:
        etag = (await http.get("/console/")).headers["etag"]
        again = await http.get("/console/", headers={"If-None-Match": f'"x", {etag}'})
    assert (again.status_code, again.text) == (304, "")


async def test_every_page_has_the_security_headers(served: Served, built: Path) -> None:
    async with served.client() as http:
        answers = [
            await http.get(path)
            for path in ("/console/", "/console/assets/none", "/console/session", "/")
        ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


async def test_another_host_gets_no_page(served: Served, built: Path) -> None:
    async with served.client(host="evil.example") as http:
        assert (await http.get("/console/")).status_code == 403


async def test_the_folder_is_not_left(served: Served, built: Path) -> None:
    transport = httpx2.ASGITransport(served.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for path in ("/console/secret", "/console/%2e%2e/%2e%2e/etc/passwd"):
            assert "root:" not in (await http.get(path)).text


def test_a_compressed_file_beside_another_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("x" * 100)
    (tmp_path / "index.html.gz").write_bytes(gzip.compress(b"x" * 100))
    found = read(tmp_path)
    assert list(found) == ["index.html"]
    assert found["index.html"].packed == (tmp_path / "index.html.gz").read_bytes()


def test_the_size_of_all_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BYTES_MAX", 10)
    (tmp_path / "index.html").write_text("x")
    (tmp_path / "z.txt").write_text("x" * 100)
    assert list(read(tmp_path)) == ["index.html"]


async def test_a_build_after_the_start_is_found(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(served.console_files, "_folder", tmp_path)
    async with served.client() as http:
        assert "not built" in (await http.get("/console/")).text
        (tmp_path / "index.html").write_text("built")
        assert (await http.get("/console/")).text == "built"
