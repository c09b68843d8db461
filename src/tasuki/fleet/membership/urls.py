"""URLs of PostgreSQL: whether a connection is verified, and the file that keeps a host's own one."""

import ipaddress
import os
import stat
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from tasuki.errors import NotPossible, Refused, StoreFailed
from tasuki.files import create_private_folder, explain_error, replace_file
from tasuki.fleet.membership import URL_FILE
from tasuki.fleet.store.database import normalize_url

MOST_BYTES = 8192
VERIFIED = "verify-full"
DRIVER = "postgresql"
LOCAL_NAMES = ("", "localhost")
UNVERIFIED_OPTION = "--allow-unverified-server"


def read_url(folder: Path) -> str:
    """Read the URL of a host that joined; empty where it did not.

    Raises StoreFailed where others could read the file, or it cannot be read.
    """
    path = folder / URL_FILE
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {explain_error(error)}.") from error
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{path} is no file. Remove it, and join again: tasuki host join")
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise StoreFailed(
                f"Others may read {path}, which holds a password. Make it yours alone (chmod 600), or join again."
            )
        content = file.read(MOST_BYTES)
    text = content.decode("utf-8", "replace").strip()
    if not text or len(text.split()) > 1:
        raise StoreFailed(
            f"{path} holds no URL. Remove it, and join again: tasuki host join; or name a database: --database-url"
        )
    return text


def write_url(folder: Path, url: str) -> Path:
    """Write a host's own URL, whole or not at all, for its user alone. Raises StoreFailed."""
    path = folder / URL_FILE
    try:
        create_private_folder(folder)
        replace_file(path, url.encode() + b"\n")
    except OSError as error:
        raise StoreFailed(
            f"{path} cannot be written: {explain_error(error)}. Fix that, then join again with a new token."
        ) from error
    return path


def parse_url(url: str) -> sa.URL:
    """Parse a URL of PostgreSQL. Raises StoreFailed, or NotPossible for another database."""
    if url.startswith("sqlite"):
        raise NotPossible("A file of SQLite belongs to one host: nothing can join it.")
    return sa.make_url(normalize_url(url))


def find_hosts(url: sa.URL) -> list[str]:
    """Find the places where a URL's server is: names, addresses, folders of sockets."""
    found = [url.host] if url.host else []
    for name in ("host", "hostaddr"):
        given = url.query.get(name, ())
        found += [given] if isinstance(given, str) else given
    return [place for word in found for place in word.split(",")] or [""]


def is_local(url: sa.URL) -> bool:
    """Whether a URL leads to this machine alone: a socket, or loopback."""
    return all(map(_is_local_place, find_hosts(url)))


def _is_local_place(place: str) -> bool:
    if place.lower() in LOCAL_NAMES or place.startswith(("/", "@")):
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(place).is_loopback
    return False


def is_verified(url: sa.URL) -> bool:
    """Whether the connection is encrypted and the server's name and certificate are checked."""
    return is_local(url) or url.query.get("sslmode") == VERIFIED


def check_verified(url: sa.URL, *, allow_unverified: bool) -> None:
    """Raise Refused for a connection that somebody in between could read or redirect."""
    if not allow_unverified and not is_verified(url):
        raise Refused(
            f"The URL does not verify the server {describe_place(url)}: whoever is in between could read and change all "
            f"that the fleet does. Add sslmode={VERIFIED} to it; what PostgreSQL needs: tasuki docs machines. "
            f"In a network that is encrypted itself: {UNVERIFIED_OPTION}"
        )


def describe_unverified(url: str) -> str:
    """Return a warning on a URL whose connection is not verified; empty for others."""
    if url.startswith("sqlite") or is_verified(parsed := sa.make_url(url)):
        return ""
    return (
        f"The connection to PostgreSQL at {describe_place(parsed)} is not verified: whoever is in between could read "
        f"and change what the fleet does. Add sslmode={VERIFIED} to its URL; How: tasuki docs machines"
    )


def describe_place(url: sa.URL) -> str:
    """Describe where a URL leads: `db.example.com/fleet`, without user and password."""
    place = ", ".join(find_hosts(url)) or "this machine"
    return f"{place}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def set_place(url: sa.URL, place: str) -> sa.URL:
    """Return a URL that leads to `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or a folder of sockets.

    Raises NotPossible where that is none.
    """
    query = {
        name: value for name, value in url.query.items() if name not in ("host", "hostaddr", "port")
    }
    known = str(url.port or url.query.get("port", ""))
    if place.startswith("/"):
        query |= {"host": place} | ({"port": known} if known else {})
        return url.set(host=None, port=None, query=query)
    if place.startswith("["):
        name, _, port = place[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = place.partition(":")
    port = port or known
    is_port = not port or (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    if not name or any(c in name for c in "/@?#%, ") or not is_port:
        raise NotPossible(f"{place!r} is no HOST or HOST:PORT; an address of IPv6: [ADDRESS]:PORT")
    return url.set(host=name, port=int(port) if port else None, query=query)


def render_url(url: sa.URL) -> str:
    """Render a URL with its password, as people and libpq write it."""
    return url.set(drivername=DRIVER).render_as_string(hide_password=False)
