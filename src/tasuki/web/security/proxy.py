"""The user whom a trusted proxy names in a header, and how the proxy is recognized.

Any program of the machine can open a loopback connection and send any header. So a proxy on this
machine is known by the system user that owns the other end of the connection, as the kernel tells
it in `/proc/net/tcp` (Linux, proc_pid_net(5)). One on another machine is known by its address.
"""

import asyncio
import ipaddress
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tasuki.config.outside import Network, parse_proxy
from tasuki.config.settings import Settings
from tasuki.errors import UsageError
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from litestar.types import HTTPScope

PEER_KEY, USER_KEY = "tasuki_peer", "tasuki_user"
"""Where the state of a request has its connection's other end, and the user that was named."""
SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"
NOTICE_SECONDS = 60.0
MOST_NAME_CHARACTERS = 200
_OVERFLOW_FILE = Path("/proc/sys/kernel/overflowuid")

Endpoint = tuple[str, int]
"""An address and a port; an IPv4 address in IPv6 is written as IPv4."""

logger = logging.getLogger("tasuki.web")


class ProxyUser(Struct, frozen=True):
    """A user whom the trusted proxy named, and whether `proxy_users` has that name."""

    name: str
    is_allowed: bool


class SocketRow(Struct, frozen=True):
    """A row of the kernel's table of sockets. `inode` is 0 where no program has it any more."""

    local: Endpoint
    remote: Endpoint
    state: str
    uid: int
    inode: int


class ConnectionPeer:
    """The other end of a connection. What is found out about it is kept as long as that lasts."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport.get_extra_info("socket")
        self._uid: int | None = None
        self._is_in: bool | None = None

    async def is_account(self, uid: int) -> bool:
        """Whether a program of this system user on this machine has the other end."""
        if self._uid is None:
            self._uid = await asyncio.to_thread(self._find_uid)
        return self._uid == uid

    def is_in(self, network: Network) -> bool:
        """Whether the other end is another machine of this network, always the same one."""
        if self._is_in is None:
            address = self._get_ends()[1][0]
            is_in = bool(address) and ipaddress.ip_address(address) in network
            self._is_in = is_in and not _is_own_address(address)
        return self._is_in

    def _find_uid(self) -> int | None:
        """Find the owner of the other end; None where it is not of this machine, or closed.

        This end must have its row too: after a reset another program could have the same ports.
        """
        own, other = self._get_ends()
        try:
            inode = os.fstat(self._socket.fileno()).st_ino
            rows = list(_read_sockets({own, other}))
        except (OSError, AttributeError):
            return None
        has_own = any(row.local == own and row.inode == inode for row in rows)
        owners = {row.uid for row in rows if row.local == other and row.remote == own}
        return owners.pop() if has_own and len(owners) == 1 else None

    def _get_ends(self) -> tuple[Endpoint, Endpoint]:
        """Return this end and the other one; without an address where it is closed."""
        try:
            own, other = self._socket.getsockname(), self._socket.getpeername()
        except (OSError, AttributeError):
            return ("", 0), ("", 0)
        return _normalize(own[0], own[1]), _normalize(other[0], other[1])


def _read_sockets(ends: set[Endpoint]) -> Iterator[SocketRow]:
    """Read the open connections between two endpoints; a socket that was closed has no owner.

    Both ends have a row each; the tables after that are not read.
    """
    found = 0
    ports = {f"{port:04X}" for _, port in ends}
    for table in SOCKET_TABLES:
        if found == len(ends):
            return
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            words = line.split(maxsplit=10)
            if words[3] != ESTABLISHED or not {words[1][-4:], words[2][-4:]} <= ports:
                continue
            row = SocketRow(
                _parse_endpoint(words[1]), _parse_endpoint(words[2]), words[3], int(words[7]), int(words[9]),
            )  # fmt: skip
            if row.inode and {row.local, row.remote} == ends:
                found += 1
                yield row


def _parse_endpoint(text: str) -> Endpoint:
    """Parse `0100007F:2253`: words of 32 bits in the byte order of the machine, and the port."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return _normalize(socket.inet_ntop(family, packed), int(port, 16))


def _normalize(address: str, port: int) -> Endpoint:
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return str(found), port


def _is_own_address(address: str) -> bool:
    """Whether this machine has the address: any of its programs can then send from it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


class TrustedProxy:
    """The proxy whose `header` names the user: `source` is its system user's uid, or its network."""

    def __init__(self, source: int | Network, header: str, users: frozenset[str]) -> None:
        self.source = source
        self.header = header.lower().encode()
        self.users = users
        self._noticed_at = float("-inf")

    async def find_user(self, scope: "HTTPScope") -> ProxyUser | None:
        """Find the user of a request; None where the proxy names none, or another program does."""
        values = [value for name, value in scope["headers"] if name == self.header]
        if not values:
            return None
        if not await self._is_sender(scope["state"].get(PEER_KEY)):
            self._notice("did not come from the proxy that the setting proxy names")
            return None
        name = values[0].decode("utf-8", "replace")
        if len(values) > 1 or not name:
            self._notice("named no user or several ones")
            return None
        return ProxyUser(shorten_to_line(name, MOST_NAME_CHARACTERS), name in self.users)

    async def _is_sender(self, peer: ConnectionPeer | None) -> bool:
        if peer is None:
            return False
        if isinstance(self.source, int):
            return await peer.is_account(self.source)
        return peer.is_in(self.source)

    def _notice(self, what: str) -> None:
        """Write into the server's log why a header was ignored, once a minute."""
        if (now := time.monotonic()) - self._noticed_at >= NOTICE_SECONDS:
            self._noticed_at = now
            logger.warning("A request under the public name was ignored as a sign-in: it %s, in %s.", what, self.header.decode())  # fmt: skip


def open_proxy(settings: Settings) -> TrustedProxy | None:
    """Return the proxy that the settings name; None where they name none, or no user of it.

    Raises UsageError where its system user cannot be told.
    """
    users = frozenset(settings.proxy_users.split())
    if not (settings.public_url and settings.proxy and settings.proxy_user_header and users):
        return None
    named = parse_proxy(settings.proxy)
    source = _find_account(named) if isinstance(named, str) else named
    return TrustedProxy(source, settings.proxy_user_header, users)


def _find_account(name: str) -> int:
    import pwd

    if sys.platform != "linux":
        raise UsageError(
            f"proxy = user:{name} needs Linux: other systems do not tell whose program a connection "
            "comes from. Unset proxy and sign in with the link: tasuki dashboard"
        )
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError(
            f"There is no system user {name} here, which the setting proxy names. Which one the proxy "
            "runs as: ps -eo user,comm"
        ) from None
    if str(uid) == _read_overflow_uid():
        raise UsageError(
            f"proxy = user:{name} cannot be told from others: the kernel shows programs of unknown "
            "users so. Let the proxy run as a system user of its own."
        )
    return uid


def _read_overflow_uid() -> str:
    try:
        return _OVERFLOW_FILE.read_text("ascii").strip()
    except OSError:
        return "65534"
