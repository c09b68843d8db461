"""What the ACP proxy costs: each message, the start, and what it loads; with and without, side by side.

    python bench/acp.py [ROUNDS]

The same scripted agent answers directly and behind `tasuki acp`, in turns of one run, so that both
see the same machine. Ping-pong is a request and its answer (two messages through the proxy); the
stream is 2,000 chunks of text in one turn. After a handoff every message has its session exchanged.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

from acp_client import HELLO, WRITES  # noqa: E402
from fakes import FAKE  # noqa: E402
from fakes.acp_agent import AcpRule, AcpScript, AcpStep  # noqa: E402

PINGS = 500
CHUNKS = 2000
TASUKI = [sys.executable, "-m", "tasuki", "acp", "--"]


class Client:
    """A blocking client at the end of pipes."""

    def __init__(self, command: list[str], folder: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TASUKI_DATA": str(folder / "data"), "HOME": str(folder)}  # fmt: skip
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=folder
        )
        self.number = 0
        self.seen = 0
        self.ask("initialize", protocolVersion=1)
        self.ready = time.perf_counter() - self.began
        opened = self.ask("session/new", cwd=str(folder), mcpServers=[])
        self.session = opened["result"]["sessionId"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request; its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        end = b'"id": %d,' % self.number, b'"id":%d,' % self.number
        while True:
            line = self.process.stdout.readline()
            self.seen += 1
            if any(mark in line[:60] for mark in end):
                answer: dict[str, Any] = json.loads(line)
                return answer

    def prompt(self, text: str) -> dict[str, Any]:
        """One turn."""
        block = {"type": "text", "text": text}
        return self.ask("session/prompt", sessionId=self.session, prompt=[block])

    def pings(self) -> list[float]:
        """Milliseconds of each of many requests."""
        took = []
        for _ in range(PINGS):
            began = time.perf_counter()
            self.ask("x/ping", sessionId=self.session, text="how are you?")
            took.append((time.perf_counter() - began) * 1000)
        return took

    def stream(self) -> float:
        """Milliseconds for each chunk of a long answer."""
        before, began = self.seen, time.perf_counter()
        self.prompt("stream")
        return (time.perf_counter() - began) * 1000 / (self.seen - before)

    def close(self) -> None:
        """Go."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(20)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=6)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stream = AcpRule("stream", (AcpStep(say="a piece of the answer, ", repeat=CHUNKS),))
        script = folder / "script.json"
        script.write_bytes(msgspec.json.encode(AcpScript(rules=(WRITES, stream))))
        agent = [sys.executable, FAKE, "acp_agent", str(script)]
        ways = {
            "direct": Client(agent, folder),
            "proxied": Client(TASUKI + agent, folder),
            "after a handoff": Client(TASUKI + agent, folder),
        }
        ways["after a handoff"].prompt(HELLO)
        assert ways["after a handoff"].prompt("/handoff")["result"]["_meta"]
        report(measured(ways, rounds))
        for client in ways.values():
            client.close()
        print_start(agent, folder)


def measured(ways: dict[str, Client], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Times of pings and of chunks, by the way that they went."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ways}
    for number in range(rounds + 1):
        for name, client in ways.items():
            pings, chunk = client.pings(), client.stream()
            if number:  # The first round warms up.
                found[name][0].extend(pings)
                found[name][1].append(chunk)
    return found


def report(found: dict[str, tuple[list[float], list[float]]]) -> None:
    """One line for each way, and what it adds to the direct one."""
    print(
        f"{'':18}{'ping p50':>10}{'p99':>8}{'chunk':>9}   ms; added for each message: ping p50, chunk"
    )
    direct = found["direct"]
    for name, (pings, chunks) in found.items():
        p50, p99 = statistics.median(pings), sorted(pings)[len(pings) * 99 // 100]
        chunk = statistics.median(chunks)
        more = (p50 - statistics.median(direct[0])) / 2
        line = f"{name:18}{p50:10.3f}{p99:8.3f}{chunk:9.4f}"
        print(
            line + (f"   {more:+.3f} {chunk - statistics.median(direct[1]):+.4f}" if more else "")
        )


def print_start(agent: list[str], folder: Path) -> None:
    """How long it takes until the agent answers for the first time, and what the proxy loads."""
    for name, command in (("direct", agent), ("proxied", TASUKI + agent)):
        clients = [Client(command, folder) for _ in range(5)]
        print(f"first answer {name}: {statistics.median(c.ready for c in clients) * 1000:.0f} ms")
        memory = 0
        for client in clients:
            status = Path(f"/proc/{client.process.pid}/status").read_text()
            memory = max(memory, int(status.partition("VmRSS:")[2].split()[0]) // 1024)
            client.close()
        print(f"resident memory {name}: {memory} MB")
    code = "import time; b=time.perf_counter(); import tasuki.session.acp.serve; print((time.perf_counter()-b)*1000)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    print(f"import of the proxy: {min(runs):.0f} ms")


if __name__ == "__main__":
    main()
