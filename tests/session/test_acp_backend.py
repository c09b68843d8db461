"""The Backend over ACP, with a scripted agent as a real child process."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import FAKE
from fakes.acp_agent import AcpRule, AcpScript, AcpStep
from waiting import retry_until, runs

from tasuki.errors import AgentFailed, StoreFailed
from tasuki.session.agent_session.acp_backend import AcpBackend
from tasuki.session.agent_session.acp_program import AcpProgram
from tasuki.session.agent_session.backend import (
    AgentCommand,
    AgentCommands,
    AgentPlan,
    AgentTodo,
    BackendEvent,
    ContextUsage,
    FileDiff,
    PermissionRequest,
    TextPiece,
    ThoughtPiece,
    ToolProgress,
)
from tasuki.session.pi_store.messages import (
    Json,
    build_assistant_message,
    build_text_block,
    build_user_message,
)

HANDOFF: Json = {"role": "custom", "customType": "handoff", "content": "<handoff-context>THE PAST"}
Make = Callable[..., Awaitable["Driven"]]


class Driven:
    """A backend with a scripted agent, and all that it told."""

    def __init__(self, folder: Path, backend: AcpBackend) -> None:
        self.backend, self.log = backend, folder / "log.jsonl"
        self.events: list[BackendEvent] = []

    async def said(self, *texts: str) -> str:
        """One turn; how it ended."""
        return await self.backend.prompt(texts, self.events.append)

    def of(self, kind: type[BackendEvent]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        """All that the agent said."""
        return "".join(event.text for event in self.of(TextPiece))

    def sent(self, method: str) -> list[Json]:
        """The parameters of what the agent was sent."""
        lines = map(json.loads, self.log.read_text().splitlines())
        return [m["params"] for m in lines if m.get("method") == method]

    def prompts(self) -> list[list[str]]:
        """The blocks of every prompt."""
        return [[b["text"] for b in p["prompt"]] for p in self.sent("session/prompt")]


def rule(match: str, *steps: AcpStep) -> AcpRule:
    return AcpRule(match, steps)


def update(kind: str, /, **fields: object) -> AcpStep:
    """A step that sends an update."""
    return AcpStep(update={"sessionUpdate": kind, **fields})


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes backends whose agents follow some rules; they are closed at the end."""
    made: list[AcpBackend] = []

    async def driven(*rules: AcpRule, context: list[Json] | None = None, **options: Any) -> Driven:
        resume = options.pop("resume", "")
        script = AcpScript(rules, log=str(tmp_path / "log.jsonl"), **options)
        path = tmp_path / f"script-{len(made)}.json"
        path.write_bytes(msgspec.json.encode(script))
        command = (sys.executable, FAKE, "acp_agent", str(path))
        made.append(AcpBackend(AcpProgram(command), tmp_path, resume=resume))
        whole = Driven(tmp_path, made[-1])
        await whole.backend.open(context or [], whole.events.append)
        return whole

    yield driven
    for backend in made:
        await backend.close()


async def test_a_turn(make: Make) -> None:
    """The text arrives in order, piece by piece, and the turn ends."""
    steps = [AcpStep(say=f"{number} ") for number in range(300)]
    agent = await make(rule("count", *steps))

    assert await agent.said("count please") == "end_turn"
    assert agent.text.split() == [str(number) for number in range(300)]
    assert agent.backend.session == "session-1"


async def test_everything_that_an_agent_tells(make: Make) -> None:
    """Thoughts, plans, tools with their output and changes, context use and commands are events."""
    diff = {"type": "diff", "path": "a.py", "oldText": "a", "newText": "b"}
    output = {"type": "content", "content": {"type": "text", "text": "1 passed"}}
    agent = await make(
        rule(
            "work",
            AcpStep(think="I think."),
            update("plan", entries=[{"content": "test", "status": "in_progress"}]),
            update("tool_call", toolCallId="1", title="pytest", kind="execute", rawInput={"command": "pytest"}),
            update("tool_call_update", toolCallId="1", status="completed", content=[output]),
            update("tool_call", toolCallId="2", title="Edit", kind="edit", content=[diff],
                   locations=[{"path": "a.py"}], status="failed"),
            update("usage_update", used=10, size=100),
        )
    )  # fmt: skip
    await agent.said("work")

    assert agent.of(ThoughtPiece) == [ThoughtPiece("I think.")]
    assert agent.of(AgentPlan) == [AgentPlan((AgentTodo("test", "in_progress"),))]
    assert agent.of(ContextUsage) == [ContextUsage(10, 100)]
    await until(lambda: agent.of(AgentCommands))
    assert agent.of(AgentCommands) == [AgentCommands((AgentCommand("own", "own"),))]
    first, second, third = agent.of(ToolProgress)
    assert (first.title, first.status, first.arguments) == (
        "pytest",
        "pending",
        {"command": "pytest"},
    )
    assert (second.title, second.status, second.output) == ("pytest", "completed", "1 passed")
    assert third == ToolProgress(
        "2", "Edit", "edit", "failed", {}, ("a.py",), (FileDiff("a.py", "a", "b"),)
    )


async def test_what_a_tool_told_before_is_replaced(make: Make) -> None:
    """An empty content takes back what was told; a change that was told stays known."""
    text = {"type": "content", "content": {"type": "text", "text": "in /tmp"}}
    diff = {"type": "diff", "path": "a.py", "newText": "b"}
    agent = await make(
        rule(
            "work",
            update("tool_call", toolCallId="1", title="ls", content=[text, diff]),
            update("tool_call_update", toolCallId="1", content=[], rawOutput={"output": "a.py"}),
            update("tool_call_update", toolCallId="1", status="completed", content=[]),
        )
    )
    await agent.said("work")

    assert [tool.output for tool in agent.of(ToolProgress)] == ["in /tmp", "a.py", ""]
    assert agent.of(ToolProgress)[-1].diffs == (FileDiff("a.py", None, "b"),)


async def test_what_is_unknown_costs_no_more_than_itself(make: Make) -> None:
    """Updates of kinds to come, broken lines and foreign sessions neither end nor shorten a turn."""
    agent = await make(
        rule(
            "work",
            update("compaction_update", compactionId="c"),
            update("tool_call", toolCallId="1", title="t", kind="teleport", status="warped", content=[7]),
            AcpStep(line="this is no JSON"),
            AcpStep(line='{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not mine"}}}}'),
            AcpStep(notify="_vendor/news", params={}),
            update("agent_message_chunk", content={"type": "image", "data": "…"}),
            AcpStep(say="done"),
        )
    )  # fmt: skip

    assert await agent.said("work") == "end_turn"
    assert agent.text == "[image]done"
    assert agent.of(ToolProgress)[0].kind == "teleport"


async def test_a_large_message(make: Make) -> None:
    """A line of a megabyte is a message like others."""
    agent = await make(rule("much", AcpStep(say="x" * 1_000_000)))
    await agent.said("much")

    assert len(agent.text) == 1_000_000


async def test_permission(make: Make) -> None:
    """The agent gets the answer of the user; no answer is `cancelled`."""
    agent = await make(
        rule("may", AcpStep(ask=("allow_once", "reject_once")), AcpStep(say="{got}"))
    )

    for answer, said in (("id-allow_once", "id-allow_once"), (None, "cancelled")):
        agent.events.clear()
        turn = asyncio.ensure_future(agent.said("may I"))
        (asked,) = await until(lambda: agent.of(PermissionRequest))
        assert asked.tool.title == "rm -rf build"
        assert [option.kind for option in asked.options] == ["allow_once", "reject_once"]
        asked.answer(answer)
        await turn
        assert agent.text == said


async def test_cancel(make: Make) -> None:
    """A turn that is cancelled ends so, a question that waits with it; the next one is heard."""
    agent = await make(
        rule("slow", AcpStep(say="I begin"), AcpStep(wait=60)),
        rule("may", AcpStep(ask=("allow_once",))),
    )
    for prompt, event in (("slow", TextPiece), ("may I", PermissionRequest)):
        agent.events.clear()
        turn = asyncio.ensure_future(agent.said(prompt))
        await until(lambda event=event: agent.of(event))  # type: ignore[misc]
        await agent.backend.cancel()
        assert await asyncio.wait_for(turn, 5) == "cancelled"

    assert await agent.said("go on") == "end_turn"


async def test_a_context_goes_in_front_of_the_first_prompt(make: Make) -> None:
    """Once, as a block of its own; not in front of a command of the agent's."""
    agent = await make(context=[HANDOFF])
    await until(lambda: agent.of(AgentCommands))
    await agent.said("/own words")
    await agent.said("hello")
    await agent.said("again")

    past = "<handoff-context>THE PAST"
    assert agent.prompts() == [["/own words"], [past, "hello"], ["again"]]


async def test_a_context_is_kept_until_it_arrived(make: Make) -> None:
    """A prompt that failed took nothing with it."""
    agent = await make(rule("fail", AcpStep(error="overloaded")), context=[HANDOFF])
    with pytest.raises(AgentFailed, match="overloaded"):
        await agent.said("fail")
    await agent.said("hello")

    assert [len(blocks) for blocks in agent.prompts()] == [2, 2]


async def test_a_conversation_as_context(make: Make) -> None:
    """An agent that cannot load its session is told who said what."""
    said = [
        build_user_message("the question"),
        build_assistant_message([build_text_block("the answer")]),
    ]
    agent = await make(context=[HANDOFF, *said])
    await agent.said("go on")

    ((context, prompt),) = agent.prompts()
    assert prompt == "go on"
    assert context.startswith("<handoff-context>THE PAST\n\n<conversation>")
    assert "User: the question\n\nAssistant: the answer\n</conversation>" in context


async def test_a_fresh_session(make: Make) -> None:
    """The old one is put away where the agent can do that, after the new one is open."""
    agent = await make(capabilities={"close": {}})
    await agent.said("first")
    await agent.backend.open([HANDOFF], agent.events.append)
    await agent.said("second")

    assert agent.backend.session == "session-2"
    assert agent.prompts()[-1] == ["<handoff-context>THE PAST", "second"]
    assert [p["sessionId"] for p in agent.sent("session/close")] == ["session-1"]


async def test_a_fresh_session_that_cannot_be_opened(make: Make) -> None:
    """The old one is still in use."""
    agent = await make(sessions=1)
    with pytest.raises(AgentFailed, match="Authentication required"):
        await agent.backend.open([HANDOFF], agent.events.append)

    await agent.said("still here")
    assert agent.text.startswith("[session-1")
    assert agent.prompts() == [["still here"]]


async def test_its_own_session_is_loaded(make: Make, tmp_path: Path) -> None:
    """With the id of an earlier session the agent opens that one: no context is sent, nothing of
    what it tells of the past is said again."""
    kept = str(tmp_path / "kept.json")
    first = await make(keep=kept)
    await first.said("the question")
    await first.backend.close()
    again = await make(keep=kept, resume="session-1", context=[build_user_message("the question")])

    assert again.backend.session == "session-1"
    assert again.of(TextPiece) == []
    await again.said("go on")
    assert again.prompts()[-1] == ["go on"]


async def test_a_session_that_is_gone_is_begun_afresh(make: Make, tmp_path: Path) -> None:
    """Where the agent cannot load it, what was said goes in front of the first prompt."""
    agent = await make(
        keep=str(tmp_path / "kept.json"),
        resume="gone",
        context=[build_user_message("the question")],
    )
    await agent.said("go on")

    assert agent.backend.session == "session-1"
    assert "User: the question" in agent.prompts()[0][0]


async def test_what_cannot_be_kept_fails_the_turn(make: Make) -> None:
    """A full disk is no remark in a log: the turn ends with it."""
    agent = await make()

    def full(event: BackendEvent) -> None:
        raise StoreFailed("the disk is full")

    with pytest.raises(StoreFailed, match="the disk is full"):
        await agent.backend.prompt(["hello"], full)
    assert await agent.said("hello") == "end_turn"


async def test_an_agent_that_dies(make: Make) -> None:
    """The sentence names it, its status and its last words; it can be opened again."""
    agent = await make(rule("die", AcpStep(exit=7)))
    with pytest.raises(AgentFailed, match="ended with status 7"):
        await agent.said("die")

    assert agent.backend.has_ended
    await agent.backend.close()
    await agent.backend.open([HANDOFF], agent.events.append)
    await agent.said("hello")
    assert agent.prompts()[-1] == ["<handoff-context>THE PAST", "hello"]


async def test_what_it_started_ends_with_it(make: Make, tmp_path: Path) -> None:
    """A child that outlives the agent is in its group, and ended with it."""
    agent = await make(child=str(tmp_path / "child"), linger=True)
    child = int((tmp_path / "child").read_text())
    await agent.backend.close()

    assert retry_until(lambda: not runs(child), 5)


async def test_its_own_thread(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in which the agent keeps the session is found by the session's id, and tells how
    full the context is where the agent does not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".pi" / "agent" / "sessions" / "--proj--"
    agent = await make(ids="{uuid}", threads=str(folder))
    assert agent.backend.find_thread() is None
    agent.backend.program = AcpProgram(agent.backend.program.command, "pi")
    await agent.said("hello")

    found = agent.backend.find_thread()
    assert found is not None
    harness, path = found
    assert harness.name == "pi"
    assert agent.backend.session in path.name
    assert "hello" in harness.read(path).entries[0].text


async def until(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    """What `condition` returns once it is true."""
    end = asyncio.get_running_loop().time() + seconds
    while not (found := condition()):
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.01)
    return found
