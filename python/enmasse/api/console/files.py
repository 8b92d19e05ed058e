"""The files of the built console, in memory.

The build of `console/` writes them into the package. Names below `assets/` contain a hash of the
content, so that browsers keep them for ever; every other path of the console is a view of the one
page. Without a build the page says how to make one.
"""

import asyncio
import gzip
import hashlib
import mimetypes
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from enmasse.api.console.paths import ASSETS, ROOT
from enmasse.api.http.compression import accepts_gzip
from enmasse.base.errors import Code, Denied, Missing

FOLDER = Path(__file__).parents[2] / "console_assets"
"""Output of the build of `console/`."""

BYTES_MAX = 32 << 20
"""Maximum bytes of all files; the rest is not served."""

INDEX = "index.html"
FOREVER = "public, max-age=31536000, immutable"
COMPRESSIBLE = ("text/", "application/json", "application/javascript", "image/svg+xml")
GZIP_LEVEL = 9

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>EnMasse</title></head>
<body><h1>The console is not built</h1>
<p>This setup of the platform has no web console. Run <code>make setup</code> in a checkout of the
sources, with Node.js and a network, and restart the platform. Packages contain the console.</p>
<p>The API and the command line work without it: <code>enmasse get addresses</code>.</p>
</body></html>
"""


class File(NamedTuple):
    """One file."""

    body: bytes
    packed: bytes | None
    """Compressed by gzip; None if that saves nothing."""

    media_type: str
    etag: str


class ConsoleFiles:
    """The routes of files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Serve a folder, which is read with the first request."""
        self._folder = folder
        self._files: Mapping[str, File] | None = None
        self._reading = asyncio.Lock()

    async def root(self, _request: Request) -> Response:
        """Redirect to the console."""
        return RedirectResponse(ROOT, 307)

    async def file(self, request: Request) -> Response:
        """A file, or the page for every path that is a view of it."""
        if request.method not in ("GET", "HEAD"):
            raise Denied(Code.VERB_REFUSED, f"{request.url.path} does not support {request.method}")
        files = await self._all()
        name = request.url.path.removeprefix(ROOT)
        found = files.get(name)
        if found is None:
            if request.url.path.startswith(ASSETS):
                raise Missing(Code.PATH_MISSING, f"file {name} not found; reload the page")
            found = files.get(INDEX)
        if found is None:
            return Response(NOT_BUILT, media_type="text/html; charset=utf-8")
        return _answer(request, found, is_asset=request.url.path.startswith(ASSETS))

    async def _all(self) -> Mapping[str, File]:
        async with self._reading:
            # Not kept without a build, so that a later one is found.
            if not self._files:
                self._files = await asyncio.to_thread(partial(read, self._folder))
            return self._files


def read(folder: Path) -> dict[str, File]:
    """Return the files of a folder by their paths in it; empty without a build."""
    if not (folder / INDEX).is_file():
        return {}
    found: dict[str, File] = {}
    size = 0
    for path in _paths(folder):
        body = path.read_bytes()
        size += len(body)
        if size > BYTES_MAX:
            break
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        found[path.relative_to(folder).as_posix()] = File(
            body,
            _packed(path, body, media_type),
            f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type,
            f'W/"{hashlib.sha256(body).hexdigest()[:32]}"',
        )
    return found


def _paths(folder: Path) -> Iterator[Path]:
    # Links could lead out of the folder.
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix != ".gz"
    )


def _packed(path: Path, body: bytes, media_type: str) -> bytes | None:
    beside = path.with_name(f"{path.name}.gz")
    if beside.is_file():
        return beside.read_bytes()
    if not media_type.startswith(COMPRESSIBLE):
        return None
    packed = gzip.compress(body, GZIP_LEVEL, mtime=0)
    return packed if len(packed) < len(body) else None


def _answer(request: Request, found: File, *, is_asset: bool) -> Response:
    """Return a file, or 304 if the client has it (RFC 9110, 13.1.2)."""
    headers = {
        "Cache-Control": FOREVER if is_asset else "no-cache",
        "ETag": found.etag,
        "Vary": "Accept-Encoding",
    }
    known = request.headers.get("if-none-match", "")
    if found.etag in [one.strip() for one in known.split(",")]:
        return Response(status_code=304, headers=headers)
    body = found.body
    if found.packed is not None and accepts_gzip(request.headers.get("accept-encoding", "")):
        body = found.packed
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=found.media_type, headers=headers)
