"""A network between namespaces, whose packets pass through this process, which drops or delays them."""

import ctypes
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from databases import Postgres, postgres
from fleets import World

SUBNET = "10.213.0."
SERVER = f"{SUBNET}1"
"""The address of the namespace of the database."""
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
T = TypeVar("T")
Flow = frozenset[bytes]


def lacking() -> str:
    """Why no network can be made here, as a sentence; empty where one can."""
    if os.geteuid() or not Path("/dev/net/tun").exists():
        return "Networks need root, and /dev/net/tun."
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "Namespaces are not permitted here."


class Network:
    """Namespaces that reach each other. Each has one address; packets are dropped without a word."""

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds for which each packet is held."""
        self.postgres: Postgres | None = None
        self.database = ""
        """The name of the fleet's database."""
        self._names: list[str] = []
        self._devices: dict[bytes, int] = {}
        self._silent: set[bytes] = set()
        self._forgotten: set[Flow] = set()
        self._flows: set[Flow] = set()
        self._held: list[tuple[float, int, int, bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pass_packets, name="network", daemon=True)

    def start(self) -> None:
        """Pass packets on from now."""
        self._thread.start()

    def attach(self, number: int) -> str:
        """Make a namespace with the address `SUBNET` + number; return its path."""
        name = f"tasuki-{os.getpid()}-{id(self) % 10**6}-{number}"
        device, address = f"tn{number}", f"{SUBNET}{number}"
        run("ip", "netns", "add", name)
        self._names.append(name)
        path = f"/run/netns/{name}"
        file = in_namespace(path, lambda: _open_device(device))
        for words in (
            ("link", "set", "lo", "up"), ("address", "add", f"{address}/24", "dev", device),
            ("link", "set", device, "up"),
        ):  # fmt: skip
            run("ip", "-n", name, *words)
        self._devices[_pack(address)] = file
        return path

    def drop(self, number: int) -> None:
        """Drop every packet from and to an address."""
        self._silent.add(_pack(f"{SUBNET}{number}"))

    def forget(self) -> None:
        """Drop the packets of every connection there was, for ever, as a NAT does that forgot them."""
        self._forgotten |= self._flows

    def heal(self) -> None:
        """Pass everything again but the connections that were forgotten."""
        self._silent.clear()
        self.delay = 0.0

    def close(self) -> None:
        """Take the namespaces away; their programs must have ended."""
        self._stop.set()
        if self._thread.ident:
            self._thread.join(5)
        for file in self._devices.values():
            os.close(file)
        for name in self._names:
            run("ip", "netns", "delete", name)

    def _pass_packets(self) -> None:
        numbers = itertools.count()
        while not self._stop.is_set():
            wait = min(0.2, max(0.0, self._held[0][0] - time.monotonic())) if self._held else 0.2
            for file in select.select(list(self._devices.values()), [], [], wait)[0]:
                packet = os.read(file, 65536)
                if (target := self._choose_target(packet)) is not None:
                    due = time.monotonic() + self.delay
                    heapq.heappush(self._held, (due, next(numbers), target, packet))
            while self._held and self._held[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(self._held)
                try:
                    os.write(target, packet)
                except OSError:  # its queue is full, or it is going: a network may lose it
                    continue

    def _choose_target(self, packet: bytes) -> int | None:
        if packet[0] >> 4 != 4:
            return None
        source, target, start = packet[12:16], packet[16:20], (packet[0] & 15) * 4
        flow = frozenset(
            (source + packet[start : start + 2], target + packet[start + 2 : start + 4])
        )
        self._flows.add(flow)
        if flow in self._forgotten or self._silent & {source, target}:
            return None
        return self._devices.get(target)


def _open_device(name: str) -> int:
    """Make a network device in the namespace of this thread; return the file with its packets."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return file


def _pack(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True, capture_output=True)


def enter(path: str) -> None:
    """Move this thread into a namespace, for good."""
    library = ctypes.CDLL(None, use_errno=True)
    with open(path) as file:
        if library.setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {path}")


def in_namespace(path: str, do: Callable[[], T]) -> T:
    """Do something in a thread of its own that is in a namespace."""
    with ThreadPoolExecutor(1, initializer=enter, initargs=(path,)) as thread:
        return thread.submit(do).result()


class NetworkWorld(World):
    """A host of a network: its server runs in a namespace, from which its API is called, too."""

    def __init__(self, folder: Path, url: str, namespace: str) -> None:
        super().__init__(folder, url)
        self.namespace = namespace
        self.prefix = ["nsenter", f"--net={namespace}"]

    def api(self, *arguments: Any, **named: Any) -> Any:
        """Call the API; its answer. Raises Refused."""
        return in_namespace(self.namespace, lambda: World.api(self, *arguments, **named))


@contextmanager
def networked(folder: Path, hosts: int) -> Iterator[tuple[Network, list[NetworkWorld]]]:
    """Hosts of one fleet whose PostgreSQL is at the other end of a network; none is started."""
    with ExitStack() as stack:
        made = stack.enter_context(closing(Network()))
        server = stack.enter_context(postgres(namespace=made.attach(1)))
        made.postgres, made.database = server, server.make().partition("@/")[2].partition("?")[0]
        url = f"postgresql://postgres@{SERVER}/{made.database}?sslmode=disable"
        worlds = []
        for number in range(2, 2 + hosts):
            (folder / f"host{number}").mkdir(parents=True)
            world = NetworkWorld(folder / f"host{number}", url, made.attach(number))
            world.env["FLEET_HOST_NAME"] = f"host{number}"
            stack.callback(world.close)
            worlds.append(world)
        made.start()
        yield made, worlds
