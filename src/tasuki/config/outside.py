"""The settings for access from outside: the public address, the proxy in front, and its users."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from tasuki.patterns import compile_pattern

HTTPS_PORT = 443
ACCOUNT_PREFIX = "user:"
"""Begins a `proxy` that is the program of a system user on this machine."""
SHARED_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "tasuki.localhost"})
"""Names of this machine that every program on it can be opened by."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOOPBACK: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in ("127.0.0.0/8", "0.0.0.0/32", "::1/128", "::/128", "::ffff:0:0/96")
)
_LINK_LOCAL = ipaddress.ip_network("fe80::/10")
_HOST_NAME = compile_pattern(
    r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
_NUMBER_AT_END = compile_pattern(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_HEADER_NAME = compile_pattern(r"[a-z][a-z0-9-]{1,63}")
_ACCOUNT = compile_pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?")
_TAKEN_HEADERS = frozenset({
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "forwarded", "host",
    "hx-request", "idempotency-key", "last-event-id", "origin", "referer", "transfer-encoding", "user-agent",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
})  # fmt: skip
"""Headers that have another meaning, or that every browser sends."""


class PublicAddress(Struct, frozen=True):
    """The name and the port under which a proxy shows the dashboard, with TLS."""

    name: str
    port: int = HTTPS_PORT

    @property
    def origin(self) -> str:
        """What browsers send as the origin of its pages."""
        return f"https://{self.name}" + (f":{self.port}" if self.port != HTTPS_PORT else "")

    def is_host(self, header: str) -> bool:
        """Whether a `Host` header is this address; a port that is usual may be left out."""
        header = header.lower()
        return header == f"{self.name}:{self.port}" or (
            self.port == HTTPS_PORT and header == self.name
        )


def parse_public_url(url: str) -> PublicAddress:
    """Parse `public_url`. Raises ValueError with the end of a sentence about the setting."""
    if url.lower().startswith("http://"):
        raise ValueError(
            "must begin with https://: a browser would send its cookie unencrypted. Let a proxy answer "
            "with TLS (Caddy, Tailscale Serve); without one use ssh -L."
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(_EXAMPLE) from None
    if parts.scheme != "https" or not url.isascii() or not url.isprintable() or "@" in url:
        raise ValueError(_EXAMPLE)
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise ValueError(
            "must have no path: the pages are at the root of a name. Give them a name of their own, "
            "such as https://tasuki.example.com."
        )
    name = parts.hostname or ""
    if name.endswith("."):
        raise ValueError("must have no dot at the end of its name.")
    if name in SHARED_NAMES or ":" in name or _NUMBER_AT_END.fullmatch(name):
        raise ValueError(
            "must have a name of its own: an address, or localhost, belongs to other programs too, "
            "and they would get the cookie."
        )
    if not _HOST_NAME.fullmatch(name) or port == 0:
        raise ValueError(_EXAMPLE)
    return PublicAddress(name, HTTPS_PORT if port is None else port)


_EXAMPLE = "must be an address such as https://fleet.example.com, with a port or without."


def parse_proxy(text: str) -> str | Network:
    """Parse `proxy`: the name of a system user, else the network of the proxy.

    Raises ValueError with the end of a sentence about the setting.
    """
    if text.startswith(ACCOUNT_PREFIX):
        account = text.removeprefix(ACCOUNT_PREFIX)
        if not _ACCOUNT.fullmatch(account):
            raise ValueError("must name a system user after user:, such as user:caddy.")
        return account
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(
            "must be user:NAME, the system user under which the proxy runs on this machine, or the "
            "address or network of another machine, such as 10.0.0.7."
        ) from None
    if any(network.version == one.version and network.overlaps(one) for one in _LOOPBACK):
        raise ValueError(
            "must not contain an address of this machine: every program and every user here could "
            "send the header. Name the system user under which the proxy runs: user:caddy."
        )
    if network.version == _LINK_LOCAL.version and network.overlaps(_LINK_LOCAL):
        raise ValueError(
            "must not contain an address of one link (fe80::/10): each link has its own machine of that "
            "address. Give one of a network, such as fd00::7."
        )
    return network


def _parse_user_header(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name.lower()):
        raise ValueError(
            "must be the name of a header, of letters, digits and hyphens, such as X-Forwarded-Email."
        )
    if name.lower() in _TAKEN_HEADERS or name.lower().startswith(("sec-", "x-tasuki-")):
        raise ValueError(
            "must be a header in which the proxy names the user alone, such as X-Forwarded-Email."
        )
    return name


PARSERS: Mapping[str, Callable[[str], object]] = {
    "public_url": parse_public_url,
    "proxy": parse_proxy,
    "proxy_user_header": _parse_user_header,
}
"""For each setting what parses it, and raises ValueError with the end of a sentence about it."""


def find_problems(public_url: str, proxy: str, header: str, users: str) -> Iterator[str]:
    """Find settings that are right alone and mean nothing together, as sentences."""
    given = {"proxy": proxy, "proxy_user_header": header, "proxy_users": users.split()}
    missing = [name for name, value in given.items() if not value]
    if missing and len(missing) < len(given):
        there = next(name for name, value in given.items() if value)
        yield f"{there} is set without {' and '.join(missing)}: the proxy signs nobody in. Set all three, or none."
    if not missing and not public_url:
        yield "proxy is set without public_url: the proxy signs nobody in. Set public_url to its address, https://NAME."
