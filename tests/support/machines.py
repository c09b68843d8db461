"""Several hosts of one fleet for a test: each with a data folder, a home, a tmux and a name of its own."""

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from databases import Postgres
from fleets import World
from waiting import retry_until

from tasuki.fleet.membership.urls import read_url

NAMES = ("Anns-MacBook-Pro.local", "web1.example.com", "x" * 63, "B")


class Machines:
    """The hosts of one fleet on one database; nothing runs before `add`."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        self.folder = folder
        self.postgres = postgres
        self.url = postgres.make()
        self.worlds: list[World] = []
        self._made = ExitStack()
        self._made.callback(postgres.drop, self.url)

    def make(self, name: str = "") -> World:
        """A host that is not started yet."""
        number = len(self.worlds)
        folder = self.folder / f"host{number}"
        folder.mkdir(parents=True)
        world = World(folder, self.url)
        self._made.callback(world.close)
        world.env["FLEET_HOST_NAME"] = name or NAMES[number % len(NAMES)]
        self.worlds.append(world)
        return world

    def add(self, name: str = "", limits: str = "") -> World:
        """A host whose server runs, with the fleet's hooks in its harness."""
        world = self.make(name)
        world.serve(limits=limits)
        world.install()
        return world

    def close(self) -> None:
        """End them all."""
        self._made.close()


class JoinedMachines(Machines):
    """Hosts of which all but the first joined: each has a role of its own in PostgreSQL."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        super().__init__(folder, postgres)
        postgres.drop(self.url)
        self.url = postgres.make_owned()
        self._made.callback(postgres.drop, self.url)

    def make(self, name: str = "") -> World:
        """A host that has joined and is not started yet; the first one runs by then."""
        world = super().make(name)
        if len(self.worlds) > 1:
            place = f"127.0.0.1:{self.postgres.port}"
            said = self.worlds[0].tasuki("host", "add", "--database-host", place)
            (line,) = [line for line in said.splitlines() if line.startswith("tasuki host join")]
            world.tasuki(*shlex.split(line)[1:])
            world.database_url = read_url(world.data / "fleet")
        return world


@contextmanager
def machines(
    folder: Path, postgres: Postgres, kind: type[Machines] = Machines
) -> Iterator[Machines]:
    """Hosts of one fleet, ended behind the test."""
    made = kind(folder, postgres)
    try:
        yield made
    finally:
        made.close()


def host_of(world: World) -> str:
    """The id of a world's host."""
    hosts = world.api("GET", "/api/hosts")["hosts"]
    return str(next(host["id"] for host in hosts if host["state"] == "here"))


def seen_by(world: World, other: str, state: str = "alive", seconds: float = 30.0) -> None:
    """Wait until a host sees another one in a state."""

    def is_seen() -> bool:
        hosts = world.api("GET", "/api/hosts")["hosts"]
        return any(host["id"] == other and host["state"] == state for host in hosts)

    retry_until(is_seen, seconds, 0.2)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; what it prints."""
    done = subprocess.run(
        ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-C", str(folder), *arguments],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def make_origin(folder: Path) -> Path:
    """A bare repository with one commit; its path."""
    origin, first = folder / "origin.git", folder / "first"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(origin)], check=True)
    subprocess.run(["git", "clone", "-q", str(origin), str(first)], check=True, capture_output=True)
    (first / "upload.py").write_text("def upload():\n    return 1\n")
    (first / ".gitignore").write_text("*.log\n")
    git(first, "add", "-A")
    git(first, "commit", "-q", "-m", "First")
    git(first, "push", "-q", "origin", "HEAD:main")
    return origin


def clone(origin: Path, folder: Path) -> Path:
    """A checkout of an origin in a folder."""
    subprocess.run(
        ["git", "clone", "-q", str(origin), str(folder)], check=True, capture_output=True
    )
    return folder
