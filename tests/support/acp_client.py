"""A client of the Agent Client Protocol for tests: raw JSON, nothing lost, everything kept."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import FAKE
from fakes.acp_agent import AcpRule, AcpScript, AcpStep

from tasuki.vault import Vault
from tasuki.vault.store import derive_state

Json = dict[str, Any]
SECONDS = 20.0
DOCUMENT = """## Goal
- Make the upload client retry

## Constraints & Preferences
- (none)

## Progress
### Done
- (none)
### In Progress
- (none)
### Blocked
- (none)

## Key Decisions
- (none)

## Critical Context
- the marker is MARKER-DOC-77

## Next Steps
- (none)
"""
HELLO = "make the upload client retry; the marker is MARKER-DOC-77"
"""What the user says, and the document then says again."""
WRITE = "Write a handoff document|handoff document was checked"
WRITES = AcpRule(WRITE, (AcpStep(say=DOCUMENT),))
"""The session writes a document that has all its sections."""


class Client:
    """A client at the end of a process: every line it was sent is in `lines`, decoded in `all`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[bytes] = []
        self.all: list[Json] = []
        self.number = 0
        self.waiting: dict[object, asyncio.Future[Json]] = {}
        self.news = asyncio.Event()
        self.answering: Callable[[Json], Json | None] = lambda request: {
            "result": {"allowed": True}
        }
        self.seconds = SECONDS
        self.version = 1
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout
        while raw := await self.process.stdout.readline():
            self.lines.append(raw)
            try:
                message = json.loads(raw)
            except ValueError:
                message = None
            if isinstance(message, dict):
                self._take(message)
            self.news.set()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(EOFError("the proxy closed its output"))
        self.news.set()

    def _take(self, message: Json) -> None:
        self.all.append(message)
        if "method" not in message:
            id = message.get("id")
            future = None if isinstance(id, dict) else self.waiting.pop(id, None)
            if future and not future.done():
                future.set_result(message)
        elif "id" in message and (answer := self.answering(message)) is not None:
            self.write({"jsonrpc": "2.0", "id": message["id"], **answer})

    def raw(self, line: bytes) -> None:
        """Send a line, whatever it is."""
        assert self.process.stdin
        self.process.stdin.write(line)

    def write(self, message: Json) -> None:
        """Send a message."""
        self.raw(json.dumps(message).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, method: str, **params: Any) -> tuple[int, "asyncio.Future[Json]"]:
        """Send a request; its id and its answer to come."""
        self.number += 1
        id = self.number
        self.waiting[id] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id, self.waiting[id]

    async def ask(self, method: str, **params: Any) -> Json:
        """Send a request; its answer."""
        _, answer = self.send(method, **params)
        return await asyncio.wait_for(answer, self.seconds)

    async def until(self, found: Callable[[], Any], seconds: float = 0.0) -> Any:
        """What `found` gives once it is true, looked at whenever something arrived."""
        end = asyncio.get_running_loop().time() + (seconds or self.seconds)
        while not (now := found()):
            left = end - asyncio.get_running_loop().time()
            assert left > 0, f"never came; the last of {len(self.all)}: {self.all[-4:]}"
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), min(left, 0.2))
            except TimeoutError:
                pass
        return now

    # -- the protocol ----------------------------------------------------------------------

    async def open(self, version: int = 1, cwd: str = "/tmp", **params: Any) -> str:
        """Begin, open a session, and wait for its commands; its id."""
        told = {"info": {"name": "test", "version": "0"}, "capabilities": {}}
        more = told if version >= 2 else {"clientCapabilities": {}}
        answer = await self.ask("initialize", protocolVersion=version, **more)
        self.version = answer["result"]["protocolVersion"]
        opened = await self.ask("session/new", cwd=cwd, mcpServers=[], **params)
        id = str(opened["result"]["sessionId"])
        await self.until(lambda: self.commands(id))
        return id

    def updates(self, session: str | None = None, since: int = 0) -> list[Json]:
        """The updates of a session, of all without one."""
        return [
            m["params"]["update"]
            for m in self.all[since:]
            if m.get("method") == "session/update" and session in (None, m["params"]["sessionId"])
        ]

    def commands(self, session: str) -> list[str]:
        """The names of the newest list of commands."""
        lists = [
            u for u in self.updates(session) if u["sessionUpdate"] == "available_commands_update"
        ]
        return [c["name"] for c in lists[-1]["availableCommands"]] if lists else []

    def said(self, since: int = 0) -> str:
        """All text of agent messages."""
        return "".join(
            u["content"]["text"] for u in self.updates(since=since)
            if u["sessionUpdate"] == "agent_message_chunk"
        )  # fmt: skip

    async def prompt(self, session: str, text: str) -> tuple[Json, str]:
        """One turn: how it ended, and what was said meanwhile."""
        since = len(self.all)
        answer = await self.ask("session/prompt", sessionId=session, prompt=[block(text)])
        if self.version >= 2 and "result" in answer:
            await self.until(lambda: self.idle(since))
            return self.idle(since)[-1], self.said(since)
        return answer.get("result") or answer, self.said(since)

    def idle(self, since: int = 0) -> list[Json]:
        """The updates that end a turn of version 2."""
        return [u for u in self.updates(since=since) if u.get("state") == "idle"]

    async def close(self) -> int:
        """Go; the exit code of the process."""
        assert self.process.stdin
        self.process.stdin.close()
        return await asyncio.wait_for(self.process.wait(), self.seconds)


def block(text: str) -> Json:
    """A text block."""
    return {"type": "text", "text": text}


def outcome(ended: Json) -> str:
    """How a handoff ended, as the proxy tells programs."""
    return str(ended["_meta"]["tasuki"]["handoff"]["outcome"])


@pytest.fixture
def setting(tmp_path: Path) -> "Setting":
    """A folder for an agent and a proxy."""
    return Setting(tmp_path)


class Setting:
    """A folder with a script, its log, and the data of tasuki."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.log_file = folder / "agent.log"
        self.vault = Vault(folder / "data" / "handoffs")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TASUKI_DATA": str(folder / "data"),
        }

    def script(self, *rules: AcpRule, name: str = "script.json", **fields: Any) -> Path:
        """Write the script of the agent."""
        fields.setdefault("capabilities", {"close": {}, "delete": {}, "fork": {}, "list": {}})
        fields.setdefault("keep", str(self.folder / "kept.json"))
        script = AcpScript(rules=rules, log=str(self.log_file), **fields)
        path = self.folder / name
        path.write_bytes(msgspec.json.encode(script))
        return path

    def agent(self, *rules: AcpRule, **fields: Any) -> list[str]:
        """The command of the scripted agent."""
        return [
            sys.executable,
            FAKE,
            "acp_agent",
            str(self.script(*rules, **fields)),
        ]

    def log(self, method: str = "") -> list[Json]:
        """What the agent was sent, of one method or all."""
        sent = [
            json.loads(line) for line in self.log_file.read_bytes().splitlines() if line[:1] == b"{"
        ]
        return [m for m in sent if not method or m.get("method") == method]

    def prompts(self, session: str = "") -> list[str]:
        """Texts of the prompts that the agent was sent, of one of its sessions or all."""
        return [
            "|".join(b.get("text", "") for b in m["params"]["prompt"])
            for m in self.log("session/prompt")
            if session in ("", m["params"]["sessionId"])
        ]

    def chains(self) -> list[Path]:
        """The files of the map of sessions."""
        return sorted((self.folder / "data" / "acp").glob("*/*.json"))

    def states(self) -> list[str]:
        """Where each handoff stands that was kept, the newest first."""
        return [derive_state(self.vault.load_events(h.id)) for h in self.vault.list_handoffs()]

    @asynccontextmanager
    async def talk(
        self, *rules: AcpRule, version: int = 1, open: Json | None = None, **fields: Any
    ) -> AsyncIterator[tuple[Client, str]]:
        """A client of the proxy in front of the scripted agent, and a session of it."""
        async with self.client(self.proxied(*rules, version=version, **fields)) as client:
            yield client, await client.open(version, **(open or {}))

    @asynccontextmanager
    async def client(self, command: Sequence[str]) -> AsyncIterator[Client]:
        """A client of a command; ended with the block."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=self.env, cwd=self.folder, limit=1 << 30,
        )  # fmt: skip
        client = Client(process)
        try:
            yield client
        finally:
            if process.returncode is None:
                try:
                    await client.close()
                except TimeoutError:
                    process.kill()
                    await process.wait()
            await client.reader

    def proxied(self, *rules: AcpRule, **fields: Any) -> list[str]:
        """The command of the proxy in front of the scripted agent."""
        return [sys.executable, "-m", "tasuki", "acp", "--", *self.agent(*rules, **fields)]
