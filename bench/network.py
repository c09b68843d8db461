"""Handoffs among hosts whose network drops, delays and cuts packets, and whose servers are killed.

    python bench/network.py [--handoffs N] [--faults N] [--hosts N] [--seed N] [--log FILE]

Real servers in namespaces, one PostgreSQL, scripted harnesses; needs root. Each host has two agents that
are handed off again and again, half of the times by an order of another host, which also sends them texts.
Meanwhile one fault follows another: all packets of a host dropped, or all of PostgreSQL's; all connections
forgotten, as by a NAT; packets held for a second; connections cut; a server killed with -9.

Once a second each host is asked for its `/health` and is given an order that does nothing: a host is able
where it carries that out within 5 s. FILE gets what `/health` said beside that, second by second. What
became of the handoffs is read from PostgreSQL's own machine and from what the agents themselves saw.
"""

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import fleet  # noqa: F401  it finds the support of the tests
import psycopg
from dbos import DBOSClient

from fleets import Refused  # isort: skip
from tasuki.fleet.handoff.engine import JSON  # isort: skip
from networks import Network, NetworkWorld, lacking, networked  # isort: skip

AGENTS = 2
"""Agents of each host."""
ABLE_SECONDS = 5.0
"""How long a host that is able takes for an order at most."""
SILENT_SECONDS = 30.0
"""How long `/health` may be wrong."""
STUCK_SECONDS = 300.0
PAUSE_SECONDS = (5.0, 15.0)
WHOLE_SECONDS = 120.0
Second = dict[str, Any]


class Fault(NamedTuple):
    """What was wrong from when to when, and how long after that each host was whole."""

    name: str
    began: float
    ended: float
    whole: dict[str, float]


class Trial:
    """A fleet whose network and servers fail, and what was seen of it."""

    def __init__(
        self, network: Network, worlds: list[NetworkWorld], options: argparse.Namespace
    ) -> None:
        self.network, self.worlds = network, worlds
        self.wanted, self.wanted_faults = options.handoffs, options.faults
        self.random = random.Random(options.seed)
        self.hosts = [f"host{number}" for number in range(2, 2 + len(worlds))]
        self.fault = ""
        self.faults: list[Fault] = []
        self.begun = 0
        self.outcomes: Counter[str] = Counter()
        self.remarks: list[str] = []
        self.seconds: list[Second] = []
        self.texts: list[tuple[int, str, str]] = []
        self.ended = threading.Event()
        self._lock = threading.Lock()
        assert network.postgres
        self.url = network.postgres.url(network.database)
        self.client = DBOSClient(
            system_database_url=self.url, dbos_system_schema="tasuki_workflows", application_name="tasuki",
            serializer=JSON,
        )  # fmt: skip
        self.ids = dict(self.ask("SELECT label, id FROM hosts"))

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read rows on PostgreSQL's own machine, which no fault concerns."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def remark(self, text: str) -> None:
        """Keep and print something that should not be."""
        self.remarks.append(text)
        print("  !", text, flush=True)

    # -- handoffs ----------------------------------------------------------------------

    def run_agent(self, number: int) -> None:
        """Hand an agent and its successors off, one after another."""
        home, choose = number % len(self.worlds), random.Random(number)
        world = self.worlds[home]
        made = {"role": "runner", "name": f"n{number}", "skill": "You are a runner."}
        slug = world.api("POST", "/api/personas", made)["slug"]
        agent = world.worked(world.started(persona=slug))
        while self._take_turn():
            asker = choose.choice([world, choose.choice(self.worlds)])
            self._send_text(asker, agent, f"Text {number}-{self.begun}-{time.time_ns()}")
            id = self._begin(asker, agent)
            successor = self._follow(world, id, agent) if id else None
            if successor is None:
                return
            agent = successor

    def _take_turn(self) -> bool:
        with self._lock:
            is_enough = self.begun >= self.wanted and len(self.faults) >= self.wanted_faults
            is_enough |= self.ended.is_set()  # what watches them failed
            self.begun += not is_enough
            return not is_enough

    def _send_text(self, asker: NetworkWorld, agent: int, text: str) -> None:
        self._wait(lambda: self.ask("SELECT 1 FROM agents WHERE id = %s AND state = 'idle'", agent))
        state = "unknown"
        try:
            state = str(asker.api("POST", f"/api/agents/{agent}/send", {"text": text})["state"])
        except Refused as refused:
            state = f"refused {refused.status}"
        except (OSError, ValueError):
            state = "unknown"
        self.texts.append((agent, text, state))
        self._wait(lambda: self.ask("SELECT 1 FROM agents WHERE id = %s AND state = 'idle'", agent))

    def _begin(self, asker: NetworkWorld, agent: int) -> str:
        """Ask for a handoff until there is one; return its id."""
        query = "SELECT id FROM handoffs WHERE agent_id = %s AND state != 'cancelled'"

        def begin() -> str:
            if rows := self.ask(query, agent):
                return str(rows[0][0])
            try:
                asker.api("POST", f"/api/agents/{agent}/handoff", {"reason": "bench"})
            except (Refused, OSError, ValueError):
                time.sleep(2)
            return ""

        id = self._wait(begin)
        if not id:
            self.outcomes["never begun"] += 1
            self.remark(f"no handoff of agent {agent} could be begun")
        return id or ""

    def _follow(self, world: NetworkWorld, id: str, agent: int) -> int | None:
        """Follow a handoff to its end; return the successor."""
        query = (
            "SELECT state, step, failure::text, successor_id, file_path FROM handoffs WHERE id = %s"
        )
        ended = self._wait(lambda: (row := self.ask(query, id)[0])[0] != "running" and row)
        if not ended:
            self.outcomes["stuck"] += 1
            self.remark(f"{id[:8]} is stuck: {self.ask(query, id)[0]}")
            return None
        state, step, failure, successor, path = ended
        if state != "done":
            self.outcomes[state] += 1
            self.remark(f"{id[:8]} {state} at {step}: {failure}")
            return None
        fault = self._find_fault(world, agent, successor, path)
        self.outcomes[fault or "done"] += 1
        if fault:
            self.remark(f"{id[:8]} {fault}: agents {agent} and {successor}")
        return int(successor)

    def _find_fault(self, world: NetworkWorld, agent: int, successor: int, path: str) -> str:
        sessions = dict(
            self.ask("SELECT id, session FROM agents WHERE id IN (%s, %s)", agent, successor)
        )
        asked = [
            x
            for x in world.prompts("Write a handoff document for it now")
            if x["session"] == sessions[agent]
        ]
        told = [
            x
            for x in world.prompts("Begin your answer with this line")
            if x["session"] == sessions[successor]
        ]
        if len(asked) > 1 or len(told) > 1:
            return "doubled"
        whole = len(asked) == len(told) == 1 and Path(path).read_text().strip()
        return "" if whole else "lost"

    def _wait(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + STUCK_SECONDS
        while not (found := condition()):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.5)
        return found

    def check_texts(self) -> Counter[str]:
        """Count what became of the texts that were sent."""
        counts: Counter[str] = Counter()
        for agent, text, state in self.texts:
            arrived = sum(len(world.prompts(text)) for world in self.worlds)
            counts[f"{state}, arrived {arrived}×"] += 1
            if arrived > 1 or (state == "proven" and not arrived):
                self.remark(f"a text to agent {agent} was {state} and arrived {arrived} times")
        return counts

    # -- what is so --------------------------------------------------------------------

    def watch(self) -> None:
        """Ask each host for its health, and give it an order that does nothing, once a second."""
        with ThreadPoolExecutor(len(self.worlds)) as pool:
            while not self.ended.is_set():
                began, second = time.monotonic(), {"at": time.time(), "fault": self.fault}
                second["health"] = dict(
                    zip(self.hosts, pool.map(self._ask_health, self.worlds), strict=True)
                )
                second["orders"] = {host: self._give_order(host) for host in self.hosts}
                self.seconds.append(second)
                self._note_done()
                self.ended.wait(max(0.0, 1.0 - (time.monotonic() - began)))
        time.sleep(ABLE_SECONDS)
        self._note_done()

    def _ask_health(self, world: NetworkWorld) -> str:
        began = time.monotonic()
        try:
            said = world.health()
        except (OSError, ValueError):
            return "no answer"
        if (took := time.monotonic() - began) > 1.0:
            self.remark(f"/health took {took:.1f} s")
        return said

    def _give_order(self, host: str) -> dict[str, Any]:
        options: Any = {
            "workflow_name": "order", "queue_name": f"host-{self.ids[host]}", "app_version": "fleet-1",
        }  # fmt: skip
        handle = self.client.enqueue(options, "nothing", {})
        return {"id": handle.get_workflow_id(), "at": time.time(), "took": None}

    def _note_done(self) -> None:
        open_orders = {
            order["id"]: order for second in self.seconds for order in second["orders"].values()
            if order["took"] is None
        }  # fmt: skip
        query = (
            "SELECT workflow_uuid, updated_at / 1000.0 FROM tasuki_workflows.workflow_status "
            "WHERE status = 'SUCCESS' AND workflow_uuid = ANY(%s)"
        )
        for id, moment in self.ask(query, list(open_orders)):
            open_orders[id]["took"] = max(0.0, float(moment) - open_orders[id]["at"])

    # -- faults ------------------------------------------------------------------------

    def run_faults(self) -> None:
        """Let one fault follow another, and look how long each host takes afterwards."""
        kinds = [
            self._drop_host,
            self._drop_all,
            self._forget,
            self._hold_packets,
            self._cut,
            self._kill,
        ]
        left: list[Callable[[], None]] = []
        while not self.ended.wait(self.random.uniform(*PAUSE_SECONDS)):
            left = left or self.random.sample(kinds, len(kinds))
            began = time.time()
            left.pop()()
            self.network.heal()
            name, self.fault = self.fault, ""
            fault = Fault(name, began, time.time(), {})
            self.faults.append(fault)
            self._wait_whole(fault)
            whole = ", ".join(f"{host} {seconds:.0f} s" for host, seconds in fault.whole.items())
            print(
                f"{name} for {fault.ended - began:.0f} s; whole after: {whole}; {dict(self.outcomes)}",
                flush=True,
            )

    def _wait_whole(self, fault: Fault) -> None:
        """Wait until each host says that it is well, and has done an order that came after the fault."""
        deadline = time.time() + WHOLE_SECONDS
        while len(fault.whole) < len(self.hosts) and time.time() < deadline:
            time.sleep(0.5)
            for host in set(self.hosts) - set(fault.whole):
                later = [s for s in self.seconds if s["orders"][host]["at"] > fault.ended]
                done = [s["orders"][host] for s in later if s["orders"][host]["took"] is not None]
                well = [s["at"] for s in later if s["health"][host] == "ok"]
                if done and well:
                    fault.whole[host] = max(done[0]["at"] + done[0]["took"], well[0]) - fault.ended
        for host in set(self.hosts) - set(fault.whole):
            fault.whole[host] = WHOLE_SECONDS
            self.remark(f"{host} was not whole {WHOLE_SECONDS:.0f} s after {fault.name}")

    def _drop_host(self) -> None:
        number = self.random.randrange(len(self.worlds))
        self.fault = f"all packets of {self.hosts[number]} dropped"
        self.network.drop(2 + number)
        self.ended.wait(self.random.uniform(20, 75))

    def _drop_all(self) -> None:
        self.fault = "all packets of PostgreSQL dropped"
        self.network.drop(1)
        self.ended.wait(self.random.uniform(20, 50))

    def _forget(self) -> None:
        self.fault = "all connections forgotten"
        self.network.forget()

    def _hold_packets(self) -> None:
        self.fault = "each packet held for 1 s"
        self.network.delay = 1.0
        self.ended.wait(20)

    def _cut(self) -> None:
        self.fault = "all connections cut"
        self.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL"
        )

    def _kill(self) -> None:
        number = self.random.randrange(len(self.worlds))
        self.fault = f"the server of {self.hosts[number]} killed"
        self.worlds[number].kill()
        self.worlds[number].serve(seconds=120)

    # -- the outcome -------------------------------------------------------------------

    def judge_health(self) -> dict[str, int]:
        """Count the seconds in which `/health` was right, late, and wrong for longer than it may be."""
        counts: Counter[str] = Counter()
        for host in self.hosts:
            wrong_since = None
            for second in self.seconds:
                took = second["orders"][host]["took"]
                is_able = took is not None and took <= ABLE_SECONDS
                if is_able == (second["health"][host] == "ok"):
                    wrong_since = None
                    counts["right"] += 1
                    continue
                wrong_since = wrong_since or second["at"]
                said = "ok and was not able" if not is_able else "not ok and was able"
                is_late = second["at"] - wrong_since <= SILENT_SECONDS
                counts[f"said {said}, {'for up to' if is_late else 'for more than'} 30 s"] += 1
        return dict(counts)

    def write_log(self, path: Path) -> None:
        """Write second by second what each host said and how long the order of that second took."""
        with path.open("w") as file:
            for second in self.seconds:
                hosts = {
                    host: {"able": second["orders"][host]["took"], "health": second["health"][host]}
                    for host in self.hosts
                }  # fmt: skip
                at = time.strftime("%H:%M:%S", time.localtime(second["at"]))
                file.write(json.dumps({"at": at, "fault": second["fault"], **hosts}) + "\n")


def run_trial(network: Network, worlds: list[NetworkWorld], options: argparse.Namespace) -> None:
    """Run a trial on hosts that are not started yet, and print what was seen."""
    for world in worlds:
        world.serve(seconds=120)
        world.install()
    trial = Trial(network, worlds, options)
    with ThreadPoolExecutor(AGENTS * len(worlds) + 2) as pool:
        watching = pool.submit(trial.watch)
        agents = [pool.submit(trial.run_agent, number) for number in range(AGENTS * len(worlds))]
        faults = pool.submit(trial.run_faults)
        for one in (faults, watching):
            one.add_done_callback(lambda _: trial.ended.set())
        for agent in agents:
            if error := agent.exception():
                trial.remark(f"an agent's thread ended: {error!r}")
        trial.ended.set()
        for one in (faults, watching):
            one.result()
    trial.write_log(options.log)
    print(f"handoffs: {dict(trial.outcomes)}")
    for name in ("lost", "doubled", "stuck"):
        print(f"{name}: {trial.outcomes[name]}")
    print(f"texts: {dict(trial.check_texts())}")
    longest = max((max(fault.whole.values()) for fault in trial.faults), default=0.0)
    print(f"{len(trial.faults)} faults; the longest time until a host was whole: {longest:.0f} s")
    print(f"/health, in seconds of {len(worlds)} hosts: {trial.judge_health()}")
    print(f"remarks: {len(trial.remarks)}; /health beside what was so: {options.log}")


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--handoffs", type=int, default=60)
    parser.add_argument("--faults", type=int, default=18)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path("network.jsonl"), metavar="FILE")
    options = parser.parse_args()
    if why := lacking():
        raise SystemExit(why)
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="tasuki-bench-", ignore_cleanup_errors=True)
        network, worlds = stack.enter_context(
            networked(Path(stack.enter_context(made)), options.hosts)
        )
        run_trial(network, worlds, options)


if __name__ == "__main__":
    main()
