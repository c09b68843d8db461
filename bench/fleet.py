"""What the fleet's server costs: events under load, a hundred handoffs at once, and doing nothing.

    python bench/fleet.py [events] [handoffs] [draft] [idle] [prune] [--seconds N] [--agents N] [--write]

A real server in a process of its own, on SQLite. Events: 200 agents send 400 a second, each by a
connection of its own as `curl` does, while 50 streams of live events are open; measured is the time
from connecting to the answer. Handoffs: scripted harnesses in real tmux panes, a hundred at once;
tasuki's own share is the processor time of its server and of every tmux it calls, for each handoff.
Draft: a document that the server writes from a thread of 82 MB.
Idle: processor time and memory of a server that has nothing to do, with ten agents at rest.
Prune: the same events while 500,000 old lines of the log are taken away.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

import threads  # noqa: E402
from fleets import World  # noqa: E402

STREAMS = 50
RATE = 400
SENDERS = 200
PAGE = ROOT / "bench" / "README.md"
TICK = os.sysconf("SC_CLK_TCK")
Row = tuple[str, str, str]


def cpu(pid: int) -> float:
    """Processor seconds of a process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def children_cpu(pid: int) -> float:
    """Processor seconds of the children of a process that ended: every tmux that it called."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) / TICK


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def quantile(values: list[float], share: float) -> float:
    """A quantile of some values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- events ----------------------------------------------------------------------------

TURN, KINDS = ("UserPromptSubmit", "Stop"), ("prompt", "idle")


class Load:
    """Hooks of many agents, and readers of live events."""

    def __init__(self, world: World, rate: float = RATE, agents: range = range(SENDERS)) -> None:
        self.rate, self.agents = rate, agents
        self.begun: dict[str, float] = {}
        """When a turn's prompt and end were sent, by the log's word and the turn's id."""
        self.host, _, port = world.address().rpartition(":")
        self.port = int(port)
        self.token = (world.data / "fleet/token").read_text().strip()
        self.hook_token = (world.data / "fleet/hook-token").read_text().strip()
        self.took: list[float] = []
        self.failed = 0
        self.run_id = time.time_ns()
        self.turn = 0
        """The number of the first turn."""

    async def event(self, agent: int, number: int) -> None:
        """One hook, by a connection of its own."""
        name, turn = TURN[number % 2], f"{agent}-{self.turn + number // 2}"
        body = json.dumps({
            "hook_event_name": name, "session_id": f"bench-{agent}", "cwd": "/tmp",
            "prompt": "go on", "prompt_id": turn, "transcript_path": "",
        }).encode()  # fmt: skip
        head = (
            f"POST /api/hooks/claude HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Authorization: Bearer {self.hook_token}\r\nX-Tasuki-Event: {self.run_id}-{agent}-{number}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        ).encode()
        self.begun[f"{KINDS[number % 2]} {turn}"] = time.time()
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(head + body)
            status = await reader.readline()
            await reader.read()
            writer.close()
        except OSError:
            status = b""
        if b" 200 " in status:
            self.took.append(time.perf_counter() - began)
        else:
            self.failed += 1

    async def run(self, seconds: float) -> None:
        """The load, at its rate whatever the answers take."""
        began, sent, tasks = time.perf_counter(), 0, set()
        while (now := time.perf_counter() - began) < seconds:
            while sent < now * self.rate:
                agent = self.agents[sent % len(self.agents)]
                task = asyncio.create_task(self.event(agent, sent // len(self.agents)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            await asyncio.sleep(max(0.001, sent / self.rate - now))
        await asyncio.gather(*tasks)


async def stream(host: str, port: int, token: str, counts: dict[int, int], number: int) -> None:
    """One reader of live events."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    while piece := await reader.read(1 << 20):
        counts[number] = counts.get(number, 0) + piece.count(b"data:")


def readers(host: str, port: int, token: str, seconds: float, result: Any) -> None:
    """All readers, in a process of their own: what they do must not hold the senders up."""

    async def all_of_them() -> None:
        counts: dict[int, int] = {}
        tasks = [
            asyncio.create_task(stream(host, port, token, counts, number))
            for number in range(STREAMS)
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        result.put((min(counts.values(), default=0), len(counts)))

    asyncio.run(all_of_them())


def inside(world: World) -> str:
    """The bucket of the server's own histogram in which the slowest hundredth begins."""
    request = urllib.request.Request(f"http://{world.address()}/metrics")
    request.add_header(
        "Authorization", f"Bearer {(world.data / 'fleet/token').read_text().strip()}"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'tasuki_hook_seconds_bucket{le="([^"]+)"} (\S+)', text)
    most = float(found[-1][1])
    bound = next(le for le, count in found if float(count) >= 0.99 * most)
    return f"≤ {1000 * float(bound):g} ms"


def events(world: World, options: argparse.Namespace) -> list[Row]:
    """Events of 200 agents at 400 a second, with 50 streams open."""
    world.serve()
    assert world.server
    asyncio.run(Load(world).run(2.0))  # warm
    load, result = Load(world), multiprocessing.Queue()
    arguments = (load.host, load.port, load.token, options.seconds + 3.0, result)
    reading = multiprocessing.Process(target=readers, args=arguments)
    reading.start()
    time.sleep(1.5)
    before, own = cpu(world.server.pid), cpu(os.getpid()) + cpu(reading.pid or 0)
    asyncio.run(load.run(options.seconds))
    used = (cpu(world.server.pid) - before) / options.seconds
    others = (cpu(os.getpid()) + cpu(reading.pid or 0) - own) / options.seconds
    read, streams = result.get(timeout=30)
    reading.join()
    ms = [1000 * t for t in load.took]
    rate = len(ms) / options.seconds
    return [
        (f"event, {SENDERS} agents, {rate:.0f}/s, {STREAMS} streams: p50", f"{quantile(ms, 0.5):.1f} ms", ""),
        ("the same, p99", f"{quantile(ms, 0.99):.1f} ms", "≤ 10 ms"),
        ("from the request to its answer, in the server: p99", inside(world), ""),
        ("processor of the senders and readers meanwhile", f"{100 * others:.0f} % of a core", ""),
        ("events that were not taken in", str(load.failed), "0"),
        (f"events of {len(ms)} that the slowest of {streams} streams got", str(read), "all that the log tells"),
        ("processor of the server meanwhile", f"{100 * used:.0f} % of a core", ""),
    ]  # fmt: skip


# -- handoffs --------------------------------------------------------------------------


def handoffs(world: World, options: argparse.Namespace) -> list[Row]:
    """Many handoffs at once, with scripted harnesses in real panes."""
    world.serve()
    assert world.server
    world.tasuki("install", "claude", "--fleet", "--yes")
    ids = []
    for number in range(options.agents):
        made = {"role": "bench", "name": f"n{number}", "skill": "You are a runner."}
        slug = world.api("POST", "/api/personas", made)["slug"]
        agent = {"harness": "claude", "persona": slug, "cwd": str(world.work)}
        ids.append(world.api("POST", "/api/agents", agent)["id"])
    for id in ids:
        world.idle(id, 120)
    for id in ids:
        world.api("POST", f"/api/agents/{id}/send", {"text": "Fix the upload client"})
    for id in ids:
        world.idle(id, 60)
    before, began = cpu(world.server.pid), time.time()
    of_tmux = -children_cpu(world.server.pid)
    begun = [world.api("POST", f"/api/agents/{id}/handoff", {"reason": "bench"}) for id in ids]
    keys = [of.get("id") or of["handoff"] for of in begun]
    deadline = time.time() + 600
    while world.api("GET", "/api/handoffs?state=running&limit=1")["handoffs"]:
        assert time.time() < deadline
        time.sleep(1.0)  # asking costs the server time as well
    wall, used = time.time() - began, cpu(world.server.pid) - before
    of_tmux += children_cpu(world.server.pid)
    found = [world.handoff(key) for key in keys]
    took = [of["finished_at"] - of["created_at"] for of in found]
    done = sum(of["state"] == "done" for of in found)
    for of in found:
        if of["state"] != "done":
            print(of["id"], of["state"], of["step"], of["failure"], file=sys.stderr)
    return [
        (f"{options.agents} handoffs at once: done", str(done), str(options.agents)),
        ("all of them", f"{wall:.1f} s", ""),
        ("one of them, p50", f"{statistics.median(took):.1f} s", ""),
        ("tasuki's own share of each (processor)", f"{1000 * used / options.agents:.0f} ms", "≤ 150 ms"),
        ("of that, tmux as it calls it", f"{1000 * of_tmux / options.agents:.0f} ms", ""),
    ]  # fmt: skip


# -- a large thread --------------------------------------------------------------------

LARGE_THREAD = 82_000_000


def draft(world: World, options: argparse.Namespace) -> list[Row]:
    """A document that the server writes from a thread of 82 MB, of an agent that is gone."""
    world.serve()
    assert world.server
    world.tasuki("install", "claude", "--fleet", "--yes")
    took, used = [], []
    for size in (0, LARGE_THREAD):
        agent = world.worked(world.started())
        thread = Path(world.agent(agent)["thread"])
        if size:
            own = thread.read_bytes()
            threads.write(thread, size, cwd=str(world.work))
            with thread.open("ab") as file:
                file.write(own)
        world.api("POST", f"/api/agents/{agent}/stop")
        before = cpu(world.server.pid)
        of = world.ends(world.hand_off(agent, **{"from": "thread"}))
        used.append(cpu(world.server.pid) - before)
        took.append(of["finished_at"] - of["created_at"])
    return [
        ("a handoff written from a small thread", f"{took[0]:.1f} s", ""),
        ("the same from a thread of 82 MB", f"{took[1]:.1f} s", ""),
        ("processor of the server for it", f"{used[1]:.2f} s", ""),
    ]


# -- idle ------------------------------------------------------------------------------


def idle(world: World, options: argparse.Namespace) -> list[Row]:
    """A server that has nothing to do."""
    world.serve()
    assert world.server
    world.tasuki("install", "claude", "--fleet", "--yes")
    for number in range(10):
        made = {"role": "rest", "name": f"n{number}", "skill": "You are a runner."}
        slug = world.api("POST", "/api/personas", made)["slug"]
        world.started(persona=slug)
    time.sleep(3)
    before = cpu(world.server.pid)
    time.sleep(options.seconds)
    used = (cpu(world.server.pid) - before) / options.seconds
    return [
        ("idle server, ten agents at rest", f"{100 * used:.1f} % of a core", "≤ 3 %"),
        ("its memory", f"{memory(world.server.pid):.0f} MB", "≤ 120 MB"),
    ]


# -- pruning ---------------------------------------------------------------------------

OLD_EVENTS = 500_000
PRUNED_WITHIN = 600.0
_OLD = "SELECT count(*) FROM events WHERE received_at < 1000"


def fill(path: Path) -> None:
    """Write old lines into the log, as hooks write them."""
    with sqlite3.connect(path) as file:
        file.executemany(
            "INSERT INTO events (event_id, at, received_at, kind, text, data) VALUES (?, 1, 1, 'prompt', ?, '{}')",
            (
                (f"old-{number}", "Fix the upload client, and test it. " * 3)
                for number in range(OLD_EVENTS)
            ),
        )
    file.close()


async def load_until(load: Load, path: Path) -> float:
    """The load, in pieces of two seconds, until no old line is left; the seconds that took."""
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < PRUNED_WITHIN:
        await load.run(2.0)
        load.run_id = time.time_ns()
        with sqlite3.connect(path, timeout=30) as file:
            left = file.execute(_OLD).fetchone()[0]
        file.close()
        if not left:
            return took
    raise AssertionError(f"{left} old lines are left after {took:.0f} s")


def prune(world: World, options: argparse.Namespace) -> list[Row]:
    """Events while old lines of the log are taken away."""
    path = world.data / "fleet.db"
    world.serve()
    world.kill(15)
    fill(path)
    size = path.stat().st_size
    world.serve()
    load = Load(world)
    took = asyncio.run(load_until(load, path))
    deadline = time.monotonic() + 60
    while path.stat().st_size > size / 2 and time.monotonic() < deadline:
        time.sleep(1.0)
    ms = [1000 * t for t in load.took]
    return [
        (f"{OLD_EVENTS} old lines of the log are gone after", f"{took:.0f} s", ""),
        ("event at 400/s meanwhile: p50", f"{quantile(ms, 0.5):.1f} ms", ""),
        ("the same, p99", f"{quantile(ms, 0.99):.1f} ms", "≤ 10 ms"),
        ("the same, longest", f"{max(ms):.0f} ms", ""),
        ("events that were not taken in", str(load.failed), "0"),
        ("the file before and after", f"{size >> 20} and {path.stat().st_size >> 20} MB", ""),
    ]


MEASURES: dict[str, Callable[[World, argparse.Namespace], list[Row]]] = {
    "events": events, "handoffs": handoffs, "draft": draft, "idle": idle, "prune": prune,
}  # fmt: skip


def table(rows: list[Row]) -> str:
    """The figures as Markdown."""
    lines = [f"| {what} | {figure} | {bound} |" for what, figure, bound in rows]
    return "\n".join(("| what | figure | bound |", "|---|---|---|", *lines))


def put_between(page: Path, mark: str, text: str) -> None:
    """Put figures into a page, between two marks."""
    head, _, rest = page.read_text("utf-8").partition(f"<!-- {mark} -->\n")
    tail = rest.partition(f"<!-- /{mark} -->")[2]
    page.write_text(f"{head}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{tail}", "utf-8")


def main() -> None:
    """Measure, print, and write where that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="*", choices=[[], *MEASURES], default=[])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    rows: list[Row] = []
    for name in options.what or list(MEASURES):
        with tempfile.TemporaryDirectory(
            prefix="tasuki-bench-", ignore_cleanup_errors=True
        ) as folder:
            world: Any = World(Path(folder) / "w")
            try:
                rows += MEASURES[name](world, options)
            finally:
                world.close()
    text = table(rows)
    print(text)
    if options.write:
        put_between(PAGE, "fleet", text)


if __name__ == "__main__":
    main()
