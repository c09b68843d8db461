"""What several hosts on one PostgreSQL cost: events, a handoff, doing nothing; near and far away.

    python bench/machines.py [events] [handoffs] [idle] [--hosts N…] [--latency MS…] [--seconds N] [--write]

Real servers in processes of their own; each host has 20 agents that send 20 events a second, so ten
hosts have 200 of each. Far away: a proxy delays each direction by half of the round trip. Beside it
one host on SQLite. Events: from connecting to the answer, and until another host's stream of live
events has them. Handoffs: one after another, from begin to done; the scripted harness answers within
milliseconds. Idle: the transactions that PostgreSQL counts, and connections.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import fleet
from fleet import Load, cpu, quantile

import databases  # isort: skip  # bench/fleet.py finds the support of the tests
from fleets import World  # isort: skip

AGENTS, RATE = 20, 20.0
"""Agents of a host, and the events that they send each second in all."""
HANDOFFS = 4
LATE_SECONDS = 6.0
"""How long the stream is still read behind the last event."""
IDLE_SECONDS = 30.0
SETTLE_SECONDS = 20.0
PAGE = Path(__file__).resolve().parent / "README.md"
DELAYED = Path(__file__).resolve().parent / "delayed.py"
Cells = tuple[str, ...]


class Setting(NamedTuple):
    """How many hosts, and the round trip to their database in milliseconds; None for SQLite."""

    hosts: int
    latency: float | None

    @property
    def name(self) -> str:
        """The first cell of a row."""
        if self.latency is None:
            return "1, SQLite"
        return f"{self.hosts}, PostgreSQL, {self.latency:.0f} ms"


class Fleet(NamedTuple):
    """Hosts whose servers run."""

    worlds: list[World]
    postgres: databases.Postgres | None
    name: str
    """The database's name in PostgreSQL."""


@contextmanager
def delayed(postgres: databases.Postgres, milliseconds: float) -> Iterator[int]:
    """A port of loopback on which PostgreSQL answers that much later."""
    socket = f"{postgres.folder}/.s.PGSQL.5432"
    words = [sys.executable, str(DELAYED), socket, str(milliseconds / 2)]
    proxy = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert proxy.stdin
    assert proxy.stdout
    try:
        yield int(proxy.stdout.readline())
    finally:
        proxy.stdin.close()
        proxy.wait(10)


@contextmanager
def started(setting: Setting, postgres: databases.Postgres) -> Iterator[Fleet]:
    """The hosts of a setting, each with a data folder, a home and a tmux of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(
            prefix="tasuki-bench-", ignore_cleanup_errors=True
        )))  # fmt: skip
        url, name = "", ""
        if setting.latency is not None:
            url = postgres.make()
            name = url.partition("@/")[2].partition("?")[0]
            stack.callback(postgres.drop, url)
        if setting.latency:
            port = stack.enter_context(delayed(postgres, setting.latency))
            url = f"postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable"
        worlds = []
        for number in range(setting.hosts):
            world = World(folder / f"host{number}", url)
            stack.callback(world.close)
            world.env["FLEET_HOST_NAME"] = f"host{number}"
            worlds.append(world)
        with ThreadPoolExecutor(len(worlds)) as pool:
            list(pool.map(lambda world: world.serve(seconds=300), worlds))
        yield Fleet(worlds, postgres if name else None, name)


def settle() -> None:
    """Wait until every host knows the others by their signs of life, and has pruned its log once."""
    time.sleep(SETTLE_SECONDS)


# -- events ----------------------------------------------------------------------------


def watch(address: str, token: str, seconds: float, ready: Any, result: Any) -> None:
    """Read a host's live events in a process of their own; when each turn's prompt and end came."""

    async def read() -> dict[str, float]:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        writer.write(
            f"GET /api/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        came: dict[str, float] = {}
        ready.set()
        end = time.time() + seconds
        while (left := end - time.time()) > 0:
            try:
                line = await asyncio.wait_for(reader.readline(), left)
            except TimeoutError:
                break
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                came[f"{event['kind']} {event['data'].get('turn', '')}"] = time.time()
        writer.close()
        return came

    result.put(asyncio.run(read()))


def measure_events(setting: Setting, postgres: databases.Postgres, seconds: float) -> Cells:
    """Events of every host's agents at a steady rate, and how late the first host has the others'."""
    with started(setting, postgres) as made:
        loads = [
            Load(world, RATE, range(number * AGENTS, (number + 1) * AGENTS))
            for number, world in enumerate(made.worlds)
        ]
        settle()
        asyncio.run(run_all(loads, 3.0))  # warm: every agent is known
        for load in loads:
            load.took, load.failed, load.run_id, load.begun = [], 0, time.time_ns(), {}
            load.turn = 1000
        ready, result = multiprocessing.Event(), multiprocessing.Queue()
        token = (made.worlds[0].data / "fleet/token").read_text().strip()
        arguments = (made.worlds[0].address(), token, seconds + LATE_SECONDS, ready, result)
        reading = multiprocessing.Process(target=watch, args=arguments)
        reading.start()
        ready.wait(20)
        time.sleep(0.5)
        pids = [world.server.pid for world in made.worlds if world.server]
        before = sum(map(cpu, pids))
        asyncio.run(run_all(loads, seconds))
        used = (sum(map(cpu, pids)) - before) / seconds
        came = result.get(timeout=60)
        reading.join()
    ms = [1000 * took for load in loads for took in load.took]
    late, missing = [], 0
    for load in loads[1:] or loads:
        for key, began in load.begun.items():
            missing += key not in came
            late += [1000 * (came[key] - began)] if key in came else []
    lost = sum(load.failed for load in loads) + missing
    return (
        setting.name, str(setting.hosts * AGENTS), f"{len(ms) / seconds:.0f}",
        f"{quantile(ms, 0.5):.1f}", f"{quantile(ms, 0.99):.1f}", f"{quantile(late, 0.5):.0f}",
        f"{quantile(late, 0.99):.0f}", str(lost), f"{100 * used:.0f} %", loaded(),
    )  # fmt: skip


async def run_all(loads: list[Load], seconds: float) -> None:
    """The load of every host, a little after one another."""

    async def run(load: Load, wait: float) -> None:
        await asyncio.sleep(wait)
        await load.run(seconds)

    apart = 1 / RATE / len(loads)
    await asyncio.gather(*(run(load, number * apart) for number, load in enumerate(loads)))


# -- handoffs --------------------------------------------------------------------------

STEPS: dict[str, dict[str, float]] = {}
"""The median seconds of each step, by setting."""


def measure_handoffs(setting: Setting, postgres: databases.Postgres, _seconds: float) -> Cells:
    """Handoffs of one agent and its successors, one after another; the other hosts do nothing."""
    with started(setting, postgres) as made:
        world = made.worlds[0]
        assert world.server
        world.install()
        agent = world.worked(world.started())
        took, used, steps = [], [], []
        for _ in range(HANDOFFS):
            before = cpu(world.server.pid)
            handoff = world.ends(world.hand_off(agent, reason="bench"), seconds=120)
            used.append(cpu(world.server.pid) - before)
            took.append(handoff["finished_at"] - handoff["created_at"])
            steps.append(
                {step["step"]: step["ended_at"] - step["started_at"] for step in handoff["steps"]}
            )
            agent = world.worked(world.idle(handoff["successor_id"]))
    STEPS[setting.name] = {name: statistics.median(one[name] for one in steps) for name in steps[0]}
    between = statistics.median(total - sum(one.values()) for total, one in zip(took, steps, strict=True))  # fmt: skip
    STEPS[setting.name]["between the steps"] = between
    return (
        setting.name, f"{statistics.median(took):.2f} s", f"{max(took):.2f} s",
        f"{1000 * statistics.median(used):.0f} ms", loaded(),
    )  # fmt: skip


# -- idle ------------------------------------------------------------------------------


def measure_idle(setting: Setting, postgres: databases.Postgres, _seconds: float) -> Cells:
    """What servers that do nothing ask of PostgreSQL."""
    with started(setting, postgres) as made:
        assert made.postgres
        settle()
        before = count(
            made, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'"
        )
        pids = [world.server.pid for world in made.worlds if world.server]
        used = sum(map(cpu, pids))
        time.sleep(IDLE_SECONDS)
        used = (sum(map(cpu, pids)) - used) / IDLE_SECONDS
        after = count(
            made, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{}'"
        )
        open_now = count(made, "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'")
    hosts = setting.hosts
    return (
        setting.name, f"{(after - before) / IDLE_SECONDS:.1f}", f"{(after - before) / IDLE_SECONDS / hosts:.1f}",
        str(open_now), f"{open_now / hosts:.1f}", f"{100 * used / hosts:.1f} %", loaded(),
    )  # fmt: skip


def count(made: Fleet, query: str) -> int:
    """A number that PostgreSQL tells of the fleet's database, asked in another one."""
    import psycopg

    assert made.postgres
    time.sleep(1.5)  # a session reports what it did within a second
    with psycopg.connect(dbname="postgres", user="postgres", host=str(made.postgres.folder)) as connection:  # fmt: skip
        row = connection.execute(query.format(made.name).encode()).fetchone()
        return int(row[0]) if row else 0


# -- the table -------------------------------------------------------------------------


def loaded() -> str:
    """The load of the machine in the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


HEADS: dict[str, Cells] = {
    "events": ("hosts", "agents", "events/s", "p50, ms", "p99, ms", "elsewhere p50, ms", "p99, ms", "lost",
               "processor", "load"),
    "handoffs": ("hosts", "a handoff, p50", "longest", "processor of its server", "load"),
    "idle": ("hosts", "transactions/s", "of each", "connections", "of each", "processor of each", "load"),
}  # fmt: skip
MEASURES: dict[str, Callable[[Setting, databases.Postgres, float], Cells]] = {
    "events": measure_events, "handoffs": measure_handoffs, "idle": measure_idle,
}  # fmt: skip


def format_table(head: Cells, rows: list[Cells]) -> str:
    """A table as Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def format_steps() -> str:
    """The steps of a handoff in each setting, as Markdown."""
    names = list(STEPS)
    rows = [
        (step.replace("_", " "), *(f"{STEPS[name][step]:.2f}" for name in names))
        for step in STEPS[names[0]]
    ]
    return format_table(("seconds", *names), rows)


def list_settings(what: str, options: argparse.Namespace) -> list[Setting]:
    """The settings in which something is measured."""
    latencies = [0.0] if what == "idle" else options.latency
    settings = [Setting(hosts, latency) for latency in latencies for hosts in options.hosts]
    return settings if what == "idle" else [Setting(1, None), *settings]


def main() -> None:
    """Measure, print, and write where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=[[], *MEASURES], default=[])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--latency", type=float, nargs="+", default=[0.0, 20.0], metavar="MS")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if why := databases.missing():
        raise SystemExit(why)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    databases.FAST = ("max_connections=200", "listen_addresses=")  # commits wait for the disk
    pieces = []
    with databases.postgres() as postgres:
        for what in options.what or list(MEASURES):
            rows: list[Cells] = []
            for setting in list_settings(what, options):
                rows.append(MEASURES[what](setting, postgres, options.seconds))
                print(what, *rows[-1], sep="  ", flush=True)
            pieces.append(format_table(HEADS[what], rows))
            if STEPS and what == "handoffs":
                pieces.append(format_steps())
    text = "\n\n".join(pieces)
    print(text)
    if options.write:
        fleet.put_between(PAGE, "machines", text)


if __name__ == "__main__":
    main()
