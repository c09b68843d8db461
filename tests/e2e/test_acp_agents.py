"""`tasuki acp` in front of the real agents: what their model is asked, and what the client sees."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import npm_programs
import pytest
from acp_agents import AGENTS
from acp_client import DOCUMENT, Client, outcome
from agents import PROGRAMS
from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelServer, ModelStep, ScriptedCall
from selection import by_default

from tasuki.vault import Vault
from tasuki.vault.store import derive_state

pytestmark = pytest.mark.e2e

FIRST, SECOND = "The first answer tells of the upload client.", "The second answer: MARKER-DOC-77."
# Claude Code puts prompts that had no answer together into one, so a rule looks for the last.
RULES = (
    ModelRule("EMPTYDOC(?!.*(SLOWDOC|once more|finish))", (ModelStep(),)),
    ModelRule("SLOWDOC(?!.*(once more|finish))", (ModelStep(DOCUMENT, delay=60.0, beat=0.2),)),
    ModelRule("Write a handoff document", (ModelStep(DOCUMENT),)),
    ModelRule("handoff document was checked", (ModelStep("- (none)"),)),
    ModelRule("make the upload client retry", (ModelStep(FIRST),)),
    ModelRule("what is the marker", (ModelStep(SECOND),)),
)
PROMPTS = ("make the upload client retry", "what is the marker")
SECONDS = 60.0


@pytest.fixture
def open_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world that every user of the machine may look into: one agent does not run as root."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        with ModelServer(RULES, ModelStep("An answer."), None) as model:
            yield World(folder, model, monkeypatch)


class Talk:
    """A client of a proxied agent, and what its model was asked."""

    def __init__(self, world: World, client: Client, session: str) -> None:
        self.world, self.client, self.session = world, client, session

    async def prompt(self, text: str) -> tuple[dict[str, object], str]:
        """One turn."""
        return await asyncio.wait_for(self.client.prompt(self.session, text), SECONDS)

    def asked(self, text: str) -> ModelRequest:
        """The newest request for a turn of the agent (others have no tools) that ends with a text."""
        sent = self.world.sent(text)
        found = [r for r in sent if text in r.prompt or text in r.turns[-1].text]
        assert found, [r.prompt[-200:] for r in self.world.model.log]
        return found[-1]


@asynccontextmanager
async def talking(world: World, name: str, version: int = 1) -> AsyncIterator[Talk]:
    """A session with an agent behind the proxy."""
    command = AGENTS[name].prepare(world)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tasuki", "acp", "--", *command,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ), cwd=world.project, limit=1 << 30,
    )  # fmt: skip
    client = Client(process)
    client.seconds = SECONDS
    try:
        session = await client.open(version, cwd=str(world.project))
        yield Talk(world, client, session)
    finally:
        if process.returncode is None:
            await client.close()
        await client.reader


@pytest.mark.parametrize("name", by_default(AGENTS, "claude-agent-acp"))
async def test_handoff(open_world: World, name: str) -> None:
    """The old session is asked for the document; the next prompt reaches a new one that holds the
    brief and not the old transcript; empty and cancelled handoffs leave the old one in use."""
    async with talking(open_world, name) as talk:
        assert talk.client.commands(talk.session)[-1] == "handoff"
        _, text = await talk.prompt(PROMPTS[0])
        assert FIRST in text
        await talk.prompt(PROMPTS[1])

        ended, text = await talk.prompt("/handoff EMPTYDOC")
        assert outcome(ended) == "empty", text
        assert "Handoff failed: The agent answered without text" in text

        since = len(talk.client.all)
        _, answer = talk.client.send("session/prompt", sessionId=talk.session, prompt=[{"type": "text", "text": "/handoff SLOWDOC"}])  # fmt: skip
        await talk.client.until(lambda: open_world.model.find_requests("SLOWDOC"), SECONDS)
        talk.client.notify("session/cancel", sessionId=talk.session)
        ended = (await asyncio.wait_for(answer, SECONDS))["result"]
        assert (ended["stopReason"], outcome(ended)) == ("cancelled", "cancelled")
        assert "Handoff cancelled" in talk.client.said(since)

        await talk.prompt("what is the marker, once more")
        assert talk.asked("once more").count_text(FIRST) == 1

        ended, text = await talk.prompt("/handoff finish the tests")
        assert outcome(ended) == "started", text
        request = talk.asked("Write a handoff document")
        assert request.count_text(FIRST) == 1
        assert "Additional focus: finish the tests" in request.prompt
        assert "New session started with handoff context" in text

        await talk.prompt("now go on with the third thing")
        request = talk.asked("now go on with the third thing")
        assert request.count_text("<handoff-context>") == 1
        assert request.count_text("MARKER-DOC-77") >= 1
        assert [t.role for t in request.turns if t.role in ("assistant", "tool")] == []
        assert not any(t.text.strip() in PROMPTS for t in request.turns)

        await talk.prompt("and a fourth thing")
        request = talk.asked("and a fourth thing")
        assert request.count_text("<handoff-context>") == 1
        assert {m["params"]["sessionId"] for m in talk.client.all if m.get("method") == "session/update"} == {talk.session}  # fmt: skip
        (handoff, *_) = Vault().list_handoffs()
        assert handoff.predecessor.harness == AGENTS[name].program
        assert derive_state(Vault().load_events(handoff.id)) == "delivered"


@pytest.mark.long
@pytest.mark.parametrize("name", AGENTS)
async def test_the_agent_ends_while_it_writes(open_world: World, name: str) -> None:
    """The client is told, its prompt is answered with an error, and the proxy ends."""
    async with talking(open_world, name) as talk:
        await talk.prompt(PROMPTS[0])
        _, answer = talk.client.send("session/prompt", sessionId=talk.session, prompt=[{"type": "text", "text": "/handoff SLOWDOC"}])  # fmt: skip
        await talk.client.until(lambda: open_world.model.find_requests("SLOWDOC"), SECONDS)
        children = children_of(talk.client.process.pid)
        for child in children:
            os.kill(child, 9)
        ended = await asyncio.wait_for(answer, SECONDS)
        code = await asyncio.wait_for(talk.client.process.wait(), SECONDS)

        assert "was ended by signal 9" in ended["error"]["message"]
        assert "Handoff failed: The agent was ended by signal 9." in talk.client.said()
        assert code == 137


def children_of(process: int) -> list[int]:
    """The children of a process."""
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.asks])
async def test_tools_are_refused(open_world: World, name: str) -> None:
    """What the model tries while it writes is refused without asking the user, and it goes on."""
    program = PROGRAMS[AGENTS[name].program]
    command = "python3 -c \"open('made.txt', 'w')\""
    call = ScriptedCall(program.tool, {program.argument: command, **program.more})
    steps = (ModelStep("CHATTER before the tool.", calls=(call,)), ModelStep(DOCUMENT))
    # opencode ends the turn there, and is asked once more.
    empty = ModelRule("^Your last answer held no text", (ModelStep(DOCUMENT),))
    open_world.model.rules = (empty, ModelRule("TOOLDOC", steps), *open_world.model.rules)
    async with talking(open_world, name) as talk:
        await talk.prompt(PROMPTS[0])
        ended, text = await talk.prompt("/handoff TOOLDOC")
        await talk.prompt("now go on with the third thing")

    request = talk.asked("now go on with the third thing")
    assert outcome(ended) == "started", text
    assert [m["method"] for m in talk.client.all if "id" in m and "method" in m] == []
    assert not (open_world.project / "made.txt").exists()
    assert any(t.role == "tool" for t in talk.asked("TOOLDOC").turns)
    assert request.count_text("Make the upload client retry") >= 1
    assert request.count_text("CHATTER") == 0


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.version == 2])
async def test_version_2(open_world: World, name: str) -> None:
    """The same over the draft of version 2; a cancellation leaves the old session in use there, too."""
    async with talking(open_world, name, version=2) as talk:
        assert talk.client.version == 2
        await talk.prompt(PROMPTS[0])
        since = len(talk.client.all)
        await talk.client.ask("session/prompt", sessionId=talk.session, prompt=[{"type": "text", "text": "/handoff SLOWDOC"}])  # fmt: skip
        await talk.client.until(lambda: open_world.model.find_requests("SLOWDOC"), SECONDS)
        talk.client.notify("session/cancel", sessionId=talk.session)
        await talk.client.until(lambda: talk.client.idle(since), SECONDS)
        assert outcome(talk.client.idle(since)[0]) == "cancelled"

        since = len(talk.client.all)
        ended, text = await talk.prompt("/handoff finish the tests")
        assert outcome(ended) == "started", text
        users = [u for u in talk.client.updates(since=since) if u["sessionUpdate"].startswith("user")]  # fmt: skip
        assert len(users) == len(talk.client.idle(since)) == 1
        assert talk.asked("Write a handoff document").count_text(FIRST) == 1

        await talk.prompt("now go on with the third thing")
        request = talk.asked("now go on with the third thing")
        assert request.count_text("<handoff-context>") == 1
        assert [t.role for t in request.turns if t.role in ("assistant", "tool")] == []


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if agent.loads])
async def test_after_a_restart(open_world: World, name: str) -> None:
    """The client's id opens the newest session of the agent in a new process, with what is in it."""
    async with talking(open_world, name) as talk:
        await talk.prompt(PROMPTS[0])
        ended, text = await talk.prompt("/handoff finish the tests")
        assert outcome(ended) == "started", text
        await talk.prompt("now go on with the third thing")
        session, project = talk.session, str(open_world.project)

    async with talking(open_world, name) as talk:
        client = talk.client
        loaded = await client.ask("session/load", sessionId=session, cwd=project, mcpServers=[])
        assert "error" not in loaded, loaded
        since = len(client.all)
        await asyncio.wait_for(client.prompt(session, "and a fourth thing"), SECONDS)
        request = talk.asked("and a fourth thing")
        listed = await client.ask("session/list", cwd=project)

    ids = [entry["sessionId"] for entry in listed["result"]["sessions"]]
    assert request.count_text("<handoff-context>") == 1
    assert not any(t.text.strip() in PROMPTS for t in request.turns)
    assert ids.count(session) == 1
    assert session in {m["params"]["sessionId"] for m in client.all[since:] if m.get("method") == "session/update"}  # fmt: skip


@pytest.mark.long
def test_acpx(open_world: World) -> None:
    """acpx, a client of others, drives the proxy without knowing of it."""
    agent = AGENTS["pi-acp"].prepare(open_world)
    open_world.program("acpx", npm_programs.command("acpx"))
    command = shlex.join([sys.executable, "-m", "tasuki", "acp", "--", *agent])

    def acpx(*arguments: str) -> str:
        done = subprocess.run(
            ["acpx", "--agent", command, "--cwd", str(open_world.project), "--approve-all", "--ttl", "30", *arguments],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    acpx("sessions", "new")
    try:
        first = acpx("prompt", PROMPTS[0])
        handed = acpx("prompt", "/handoff finish the tests")
        acpx("prompt", "now go on with the third thing")
    finally:
        acpx("sessions", "close")

    (request,) = [r for r in open_world.model.log if "third thing" in r.turns[-1].text]
    (asked,) = open_world.model.find_requests("Write a handoff document")
    assert FIRST in first
    assert "New session started with handoff context" in handed
    assert asked.count_text(FIRST) == 1
    assert request.count_text("<handoff-context>") == 1
    assert [t.role for t in request.turns if t.role in ("assistant", "tool")] == []
