"""The dashboard's style sheet and scripts: read once, sent compressed, kept by browsers for good."""

import gzip
import hashlib
from importlib.resources import files
from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from msgspec import Struct

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOR_GOOD = "public, max-age=31536000, immutable"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}


class Asset(Struct, frozen=True):
    """A file as it is sent."""

    type: str
    content: bytes
    gzipped: bytes
    version: str
    """Words that change with its content: they stand in its address."""


def _loaded() -> dict[str, Asset]:
    found = {}
    root = files("tasuki.web") / "static"
    for folder in (root, root / "vendor"):
        for file in folder.iterdir():
            suffix = file.name[file.name.rfind(".") :]
            if suffix in TYPES:
                content = file.read_bytes()
                version = hashlib.sha256(content).hexdigest()[:12]
                found[file.name] = Asset(
                    TYPES[suffix], content, gzip.compress(content, 9, mtime=0), version
                )
    return found


ASSETS = _loaded()


def address(name: str) -> str:
    """Where a file is: another address for another content."""
    return f"/static/{name}?v={ASSETS[name].version}"


@get("/static/{name:str}", sync_to_thread=False, include_in_schema=False)
def asset(name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
    """A file of the dashboard; needs no session, for the page that says how to sign in is made with it."""
    found = ASSETS.get(name)
    if found is None:
        raise NotFoundException
    headers = {**HEADERS, "Cache-Control": FOR_GOOD, "Vary": "Accept-Encoding"}
    body = found.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        body = found.gzipped
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=found.type, headers=headers)
