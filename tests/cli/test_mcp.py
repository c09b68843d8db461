"""The MCP server, called by the SDK's own client over standard input and output."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import GOAL, SECRET, World, work
from fakes.model_server import ModelServer, ModelStep
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation
from selection import by_default

from tasuki import mcp
from tasuki.config.installation import build_install_line
from tasuki.vault import Vault
from tasuki_testing import ThreadBuilder


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh world."""
    return World(tmp_path)


@asynccontextmanager
async def connected(
    world: World, name: str = "claude-code", mode: str = "auto", **env: str
) -> AsyncIterator[Client]:
    """A client that calls itself by a harness's name, and the server in the project.

    `legacy` begins with the handshake that most programs still use.
    """
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tasuki", "mcp"],
        env={**world.env, **env},
        cwd=str(world.project),
    )
    known = Implementation(name=name, version="1")
    async with Client(stdio_client(parameters), client_info=known, mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: object) -> tuple[bool, str]:
    """Whether a call failed, and its text."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    return bool(result.is_error), content.text  # type: ignore[union-attr]


async def test_the_server_offers_its_tools_resources_and_prompt(world: World) -> None:
    """Four tools with descriptions, a template and a prompt; three of the tools only read."""
    async with connected(world) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"handoff", "read_thread", "find_threads", "lineage"}
        assert [
            n for n, t in tools.items() if not (t.annotations and t.annotations.read_only_hint)
        ] == ["handoff"]
        assert "context" not in tools["handoff"].input_schema["properties"]
        assert all(
            "description" in field
            for tool in tools.values()
            for name, field in tool.input_schema["properties"].items()
            if name != "limit"
        )
        templates = (await client.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates] == ["handoff://{id}"]
        prompt = await client.get_prompt("handoff", {"goal": GOAL})
        assert f"Goal: {GOAL}" in prompt.messages[0].content.text  # type: ignore[union-attr]


async def test_a_model_drafts_a_handoff_that_the_user_starts(world: World) -> None:
    """The brief comes back, the goal marked as the model's in it and in the record; nothing is started."""
    path = world.thread(work(cwd=str(world.project)))
    before = path.read_bytes()
    async with connected(world) as client:
        failed, text = await call(client, "handoff", goal=GOAL)
        assert not failed, text
        resources = (await client.list_resources()).resources
        brief = (await client.read_resource(resources[0].uri)).contents[0].text  # type: ignore[union-attr]

    (handoff,) = Vault(world.data / "handoffs").list_handoffs()
    assert handoff.goal.said_by == "model"
    assert handoff.goal.text == GOAL
    assert f"tasuki start {handoff.id[:8]}" in text
    assert text.endswith(f"## Next Goal (verbatim, proposed by the previous agent)\n{GOAL}")
    assert text.endswith(brief)
    assert Vault(world.data / "handoffs").load_state(handoff.id) == "draft"
    assert path.read_bytes() == before


async def test_the_authors_of_the_settings_write_here_too(world: World, tmp_path: Path) -> None:
    """A model that the user set is asked while the server serves; what it cost is told."""
    world.thread(work(cwd=str(world.project)))
    said = {"text": "The gateway's keepalive is off, so the upload stalls.", "refs": [5]}
    answer = json.dumps({"relevantInformation": [said]})
    with ModelServer(default=ModelStep(answer)) as model:
        settings = tmp_path / "own.toml"
        settings.write_text(
            f'author = "model"\nmodel = "local/x"\n[providers.local]\nbase_url = "{model.url}/v1"\n'
        )
        async with connected(world, TASUKI_CONFIG=str(settings)) as client:
            failed, text = await call(client, "handoff", goal=GOAL)

    assert not failed, text
    assert "Note: Written by the model (local/x)" in text
    assert f"- {said['text']} [#5]" in text


@pytest.mark.parametrize("mode", by_default(["auto", "legacy"], "auto"))
async def test_the_callers_own_thread_is_meant(world: World, mode: str) -> None:
    """The thread that its environment names goes before a newer one, which its name chooses else."""
    mine = world.thread(work(seed=1, cwd=str(world.project)))
    newer = world.thread(work(seed=2, cwd=str(world.project)))
    os.utime(mine, (1_700_000_000, 1_700_000_000))
    async with connected(world, mode=mode, CLAUDE_CODE_SESSION_ID=mine.stem) as client:
        assert mine.stem in (await call(client, "handoff", goal=GOAL))[1]
    async with connected(world, mode=mode) as client:
        assert newer.stem in (await call(client, "handoff", goal=GOAL))[1]
    async with connected(world, name="codex-mcp-client", mode=mode) as client:
        failed, text = await call(client, "handoff", goal=GOAL)
        assert failed
        assert "There is no thread of Codex" in text


QUEUE = '{"type":"queue-operation","operation":"enqueue","sessionId":"1","timestamp":"2026-01-05T09:00:00Z"}'
BEFORE = {
    "an empty file": "",
    "only the queue": f"{QUEUE}\n",
    "no user yet": f"{QUEUE}\n"
    '{"type":"system","subtype":"x","content":"c","uuid":"u","parentUuid":null,"sessionId":"1"}\n',
}
"""What Claude Code has written of a thread before its first prompt is there."""


@pytest.mark.parametrize(
    "there",
    by_default(["nothing", "an empty file", "only the queue", "no user yet"], "only the queue"),
)
async def test_a_thread_that_is_written_a_moment_later_is_waited_for(
    world: World, there: str
) -> None:
    """A call of the first turn comes before the thread is on disk; no older one is taken instead."""
    mine = world.thread(work(seed=2, cwd=str(world.project)))
    content = mine.read_bytes()

    async def called(tool: str, **arguments: object) -> str:
        async def write_later() -> None:
            await anyio.sleep(0.5)
            mine.write_bytes(content)

        if there == "nothing":
            mine.unlink()
        else:
            mine.write_text(BEFORE[there])
        async with (
            connected(world, CLAUDE_CODE_SESSION_ID=mine.stem) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(write_later)
            failed, text = await call(client, tool, **arguments)
        assert not failed, text
        return text

    assert "#1 user" in await called("read_thread", thread="@1#1")
    older = world.thread(work(seed=1, cwd=str(world.project)))
    os.utime(older, (1_700_000_000, 1_700_000_000))
    assert mine.stem in await called("handoff", goal=GOAL)


async def test_codex_names_its_thread_in_the_call(world: World) -> None:
    """The metadata of the call goes before the newest thread of the folder."""
    folder = world.home / ".codex" / "sessions" / "2026" / "01" / "05"
    folder.mkdir(parents=True)
    paths = [
        ThreadBuilder("codex", cwd=str(world.project), seed=n)
        .user("Look")
        .assistant("Yes.")
        .write(folder)
        for n in (1, 2)
    ]
    os.utime(paths[0], (1_700_000_000, 1_700_000_000))
    mine = paths[0].stem[-36:]
    async with connected(world, name="codex-mcp-client") as client:
        meta: Any = {"x-codex-turn-metadata": {"thread_id": mine}}
        result = await client.call_tool("handoff", {"goal": GOAL}, meta=meta)
        assert mine in result.content[0].text  # type: ignore[union-attr]
        assert paths[1].stem[-36:] in (await call(client, "handoff", goal=GOAL))[1]


WRONG_CALLS = [
    ("handoff", {"goal": "continue"}, "Be specific: what should the next thread accomplish?"),
    (
        "handoff",
        {"goal": f"use the token {SECRET} to log in"},
        "The goal seems to contain a secret",
    ),
    ("handoff", {"goal": GOAL, "thread": "nowhere"}, "neither a file, a thread id"),
    ("handoff", {"goal": GOAL, "to": "nobody"}, "Unknown harness 'nobody'"),
    ("read_thread", {"thread": "@7"}, "only 1 thread"),
    ("read_thread", {"thread": "@1#99"}, "There is no entry #99"),
    ("read_thread", {"thread": "@1#9-2"}, "runs backwards"),
    ("find_threads", {"query": "after:never x"}, "after:never is not a date"),
    ("find_threads", {"query": "harness:nobody"}, "Unknown harness"),
    ("lineage", {"id": "abcdef"}, "No handoff abcdef is stored"),
    (
        "read_thread",
        {"thread": "~nosuch/x"},
        "the home folder of nosuch, who is not a user here",
    ),
    ("read_thread", {"thread": "/a" * 5_000}, "Not a possible file name: /a/a"),
    (
        "read_thread",
        {"thread": "../../etc/passwd\0"},
        "Not a possible file name: ../../etc/passwd",
    ),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"), by_default(WRONG_CALLS, *WRONG_CALLS[::4])
)
async def test_errors_are_tool_errors_in_the_words_of_the_command_line(
    world: World, tool: str, arguments: dict[str, object], sentence: str
) -> None:
    """What the command line would say, the model is told; no secret and no traceback."""
    world.thread(work(cwd=str(world.project)))
    async with connected(world) as client:
        failed, text = await call(client, tool, **arguments)

    assert failed
    assert sentence in text
    assert SECRET not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("nosuch", {}, "There is no prompt 'nosuch'. Prompts: handoff."),
        ("handoff", {}, "handoff: The argument `goal` is missing."),
    ],
)
async def test_a_prompt_that_cannot_be_filled_in_is_told_in_words(
    world: World, name: str, arguments: dict[str, str], said: str
) -> None:
    """An unknown name and a missing goal are answers of the protocol."""
    async with connected(world) as client:
        with pytest.raises(MCPError, match=re.escape(said)):
            await client.get_prompt(name, arguments)


def test_a_defect_inside_a_tool_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told what it is; the library prints tracebacks of other errors than its own."""

    def fail(*_: object) -> str:
        raise KeyError("odd")

    monkeypatch.setattr(mcp, "_read_entries", fail)
    with pytest.raises(ToolError, match="This is a bug in tasuki: KeyError"):
        mcp.read_thread("x")


def test_a_wrong_prompt_prints_no_traceback(world: World) -> None:
    """An unknown name and a missing goal leave standard error empty."""
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }  # fmt: skip
    lines: list[dict[str, Any]] = [begin, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines += [
        {"jsonrpc": "2.0", "id": id, "method": "prompts/get", "params": {"name": name}}
        for id, name in enumerate(("nosuch", "handoff"), 2)
    ]
    done = world.run("mcp", stdin="".join(json.dumps(line) + "\n" for line in lines))

    assert done.stderr == ""


async def test_threads_are_found_read_and_asked_without_their_secrets(world: World) -> None:
    """Search leads to a ref, the ref opens, a question gets both answers; tokens are redacted."""
    world.thread(work(cwd=str(world.project)))
    async with connected(world) as client:
        _, found = await call(client, "find_threads", query="keepalive file:gateway.py")
        assert "00000000#5 assistant" in found
        _, read = await call(client, "read_thread", thread="@1#3,5")
        assert "keepalive is off" in read
        assert "REDACTED" in read
        assert SECRET[4:] not in read
        _, answer = await call(
            client, "read_thread", thread="@1", question="why does the upload stall?"
        )
        assert answer.index("client timeout is 60 s") < answer.index("keepalive is off")
        failed, none = await call(client, "find_threads", query="zebra")
        assert not failed
        assert "No thread matches" in none


async def test_a_long_thread_is_cut_with_how_to_go_on(world: World) -> None:
    """An answer is bounded, and says what to ask for next."""
    builder = work(cwd=str(world.project))
    for n in range(60):
        builder.user(f"part {n}").assistant(f"{n} " + "long " * 400)
    world.thread(builder)
    async with connected(world) as client:
        _, text = await call(client, "read_thread", thread="@1")

    assert len(text) < 45_000
    assert "cut off here. Name entries, for example" in text


async def test_a_resource_that_is_not_there_is_an_error(world: World) -> None:
    """Ids that are none, and paths, are refused in words."""
    async with connected(world) as client:
        for uri in ("handoff://abcdef12", "handoff://..%2F..%2Fetc"):
            with pytest.raises(Exception, match=r"(?i)handoff|resource"):
                await client.read_resource(uri)


def test_without_the_extra_the_line_to_run_is_said(world: World) -> None:
    """Where the library is missing, one sentence says how to get it."""
    blocked = world.home / "blocked"
    blocked.mkdir()
    (blocked / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')")
    done = world.run("mcp", PYTHONPATH=str(blocked))

    assert done.returncode == 1
    assert build_install_line("mcp") in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_output_is_the_protocols_alone(world: World) -> None:
    """Every line that the server prints is a message of the protocol; it ends with its input."""
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }  # fmt: skip
    lines = [begin, {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
              "params": {"name": "find_threads", "arguments": {"query": "x"}}}]  # fmt: skip
    done = world.run("mcp", stdin="".join(json.dumps(line) + "\n" for line in lines))

    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {a["id"] for a in answers if "id" in a} >= {1}
    assert all(a["jsonrpc"] == "2.0" for a in answers)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("handoff", {}, "handoff: The argument `goal` is missing."),
        ("find_threads", {}, "find_threads: The argument `query` is missing."),
        ("handoff", {"goal": ["a"]}, "handoff: The argument `goal` is invalid: "),
    ],
)
async def test_arguments_that_do_not_fit_are_told_in_words(
    world: World, tool: str, arguments: dict[str, Any], said: str
) -> None:
    """A missing or wrong argument is one sentence, without a library's name and address."""
    async with connected(world) as client:
        answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text

    assert answer.is_error
    assert said in text
    assert "pydantic" not in text.lower()
    assert "http" not in text
