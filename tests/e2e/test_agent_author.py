"""Real agents are asked about their own threads; the threads, and all beside them, stay as they are."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import npm_programs
import pytest
from agents import PROGRAMS, digest
from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from selection import by_default

from tasuki.draft.authors.agent_and_model import ask_agent
from tasuki.errors import AuthorFailed
from tasuki.harness.registry import get_harness
from tasuki.model import Thread

pytestmark = pytest.mark.e2e

WISH = "Never change the public signature of `login()`, the mobile team imports it."
FACT = "The gateway drops idle connections after 61 s, because its keepalive is off."
QUESTION = "What must the next agent know?\nAnswer in two lines."
DOCUMENT = "# Handoff\nThe signature of login() stays."
FIELDS = "Which fields has the handoff?"
DRAFTED = {"title": "Login", "open": ["timeout"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "open": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "open"],
    "additionalProperties": False,
}
REFUSED = "Is there any credit left?"
SLOW = "Take your time."
SECONDS = 120
NAMES = [
    name
    for name in PROGRAMS
    if get_harness(name).can_ask
    and (npm_programs.in_every_run(name) or os.environ.get("TASUKI_E2E") == "all")
]
NO_TOOLS = [{"functionDeclarations": []}]
STARTED = {"gemini": 15, "omp": 15, "opencode": 25}
"""Seconds after which a program surely waits for its model, on a busy machine."""
ITS_OWN = {
    "claude": r"\.claude/(?:plugins/store/|\.last-cleanup)",
    "codex": r"\.codex/(?:[\w]+\.sqlite|\.?tmp/|shell_snapshots/|thread-writer-locks/)",
    "omp": r"\.omp/agent/(?:agent|models)\.db",
    "opencode": r"\.local/(?:share|state)/opencode/|\.cache/|\.bun/|\.npm/|\.config/opencode/",
}
"""What every start of a program changes: times of its plug-ins, logs, databases without threads."""

HOOKS = {
    "claude": ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"),
    "gemini": ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"),
    "codex": ("notify", "user", "project"),
}
"""What each program runs at a question of the user's, once each at least."""


@pytest.fixture
def recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Thread]:
    """A program's real thread, recorded in the world: a wish, a command that ran, an answer."""
    monkeypatch.setattr(tempfile, "tempdir", str(world.folder / "tmp"))

    def record(name: str) -> Thread:
        program = PROGRAMS[name]
        structured = (
            ModelStep("", (ScriptedCall("StructuredOutput", DRAFTED),))
            if name == "claude"
            else ModelStep(json.dumps(DRAFTED))
        )
        steps = (ModelStep("I read the notes first.", (program.call(),)), ModelStep(FACT))
        world.model.rules = (
            ModelRule(r"next agent know", (ModelStep(DOCUMENT),)),
            ModelRule(r"Which fields", (structured,)),
            ModelRule(r"any credit", (ModelStep(status=400, error="no credit left"),)),
            ModelRule(r"your time", (ModelStep(DOCUMENT, delay=60),)),
            ModelRule("mobile team", steps),
        )
        (world.project / "notes.txt").write_text("The keepalive of the gateway: see ops.\n")
        program.prepare(world)
        said(world, program.asked(WISH), FACT)
        (file,) = get_harness(name).list_files(world.project)
        return get_harness(name).read(file.path)

    return record


def said(world: World, command: list[str], text: str) -> None:
    """Run a program that says this text."""
    done = subprocess.run(
        command, cwd=world.project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=2 * SECONDS, check=False,
    )  # fmt: skip
    assert text in done.stdout, (done.stdout, done.stderr)


def kept(world: World, name: str) -> dict[str, str]:
    """Every file of the home with a digest, links and folders too; of databases all threads."""
    own = re.compile(ITS_OWN.get(name, r"\A\Z"))
    found = {}
    for path in sorted(world.home.rglob("*")):
        relative = str(path.relative_to(world.home))
        if not own.search(f"{relative}/" if path.is_dir() else relative):
            found[relative] = digest(path.read_bytes()) if path.is_file() else "no file"
    if name == "codex":
        found |= dict.fromkeys(listed(world.home / ".codex"), "a thread")
    return found | PROGRAMS[name].recorded_rows(world.home)


def listed(folder: Path) -> list[str]:
    """The threads that Codex lists, from a copy of its database."""
    with tempfile.TemporaryDirectory() as copy:
        for path in folder.glob("state_*.sqlite*"):
            shutil.copy(path, copy)
        (database,) = Path(copy).glob("state_*.sqlite")
        with closing(sqlite3.connect(database)) as db:
            return [repr(row) for row in db.execute("select id, rollout_path from threads")]


def last(world: World, prompt: str) -> ModelRequest:
    """The last request in which this was asked."""
    return [request for request in world.model.log if prompt in request.prompt][-1]


@pytest.mark.parametrize("name", by_default(NAMES, "claude"))
def test_an_agent_answers_and_its_thread_stays(
    name: str, world: World, recorded: Callable[[str], Thread]
) -> None:
    """It has its whole thread in view, gives a document or an object, and keeps nothing of it."""
    thread = recorded(name)
    before = kept(world, name)
    document = ask_agent(get_harness(name), thread, QUESTION, seconds=SECONDS)
    fields = ask_agent(
        get_harness(name), thread, FIELDS, schema=json.dumps(SCHEMA), seconds=SECONDS
    )

    assert document.text == DOCUMENT
    assert json.loads(fields.text) == DRAFTED
    assert document.input_tokens > 100
    assert 0 < document.output_tokens < 100
    assert document.note == fields.note == ""
    request = last(world, "next agent know")
    assert [request.count_text(text) for text in (WISH, FACT, QUESTION)] == [1, 1, 1]
    assert name == "codex" or request.body.get("tools", []) in ([], NO_TOOLS)
    assert kept(world, name) == before
    assert list((world.folder / "tmp").glob("tasuki-*")) == []


@pytest.mark.long
@pytest.mark.parametrize("name", by_default(NAMES, "claude"))
def test_an_agent_that_fails_leaves_nothing(
    name: str, world: World, recorded: Callable[[str], Thread]
) -> None:
    """The reason is in the program's words; so it is where the time is up before it spoke."""
    thread = recorded(name)
    before = kept(world, name)
    with pytest.raises(AuthorFailed, match="no credit left"):
        ask_agent(get_harness(name), thread, REFUSED, seconds=SECONDS)
    with pytest.raises(AuthorFailed, match="did not answer within"):
        ask_agent(get_harness(name), thread, SLOW, seconds=STARTED.get(name, 6))

    assert last(world, SLOW).count_text(WISH) == 1
    assert kept(world, name) == before
    assert list((world.folder / "tmp").glob("tasuki-*")) == []


def hooked(world: World, name: str) -> Path:
    """The file that the user's hooks touch, and a server for tools of the user or the project."""
    touched = world.folder / "touched"
    command = f"echo x >> {touched}"
    if name == "codex":
        toml = f"[mcp_servers.toucher]\ncommand = '/bin/sh'\nargs = ['-c', '{command}']\n"
        (world.project / ".codex").mkdir()
        (world.project / ".codex" / "config.toml").write_text(toml.replace("toucher", "second"))
        config = world.home / ".codex" / "config.toml"
        notify = f"notify = ['/bin/sh', '-c', '{command}']\n"
        config.write_text(f"{notify}{config.read_text()}\n{toml}")
        return touched
    hooks = {e: [{"hooks": [{"type": "command", "command": command}]}] for e in HOOKS[name]}
    mcp = {"mcpServers": {"toucher": {"command": "/bin/sh", "args": ["-c", command]}}}
    added(world, f".{name}/settings.json", {"hooks": hooks})
    added(world, ".claude.json" if name == "claude" else ".gemini/settings.json", mcp)
    return touched


def added(world: World, path: str, more: dict[str, object]) -> None:
    """Put more into a file of settings in the home."""
    world.write(path, {**json.loads((world.home / path).read_text()), **more})


@pytest.mark.parametrize("name", by_default(HOOKS, "claude"))
def test_the_users_hooks_and_servers_do_not_run(
    name: str, world: World, recorded: Callable[[str], Thread]
) -> None:
    """They do when the user asks, and would hand off in the middle of a handoff here."""
    thread = recorded(name)
    touched = hooked(world, name)
    said(world, PROGRAMS[name].asked(WISH), FACT)
    assert touched.read_text().count("x") >= len(HOOKS[name])
    touched.unlink()
    before = kept(world, name)

    assert ask_agent(get_harness(name), thread, QUESTION, seconds=SECONDS).text == DOCUMENT
    assert not touched.exists()
    assert kept(world, name) == before


@pytest.mark.parametrize("name", ["claude", "pi"])
def test_a_thread_that_lies_elsewhere_is_asked_too(
    name: str, world: World, recorded: Callable[[str], Thread]
) -> None:
    """By its file; also where its folder is gone."""
    path = Path(recorded(name).path)
    moved = world.folder / "elsewhere" / path.name
    moved.parent.mkdir()
    shutil.move(path, moved)
    shutil.rmtree(world.project)
    thread = get_harness(name).read(moved)
    content, before = moved.read_bytes(), kept(world, name)

    assert ask_agent(get_harness(name), thread, QUESTION, seconds=SECONDS).text == DOCUMENT
    assert last(world, "next agent know").count_text(FACT) == 1
    assert moved.read_bytes() == content
    assert kept(world, name) == before


@pytest.mark.long
def test_an_old_thread_of_claude_is_not_cleared_away(
    world: World, recorded: Callable[[str], Thread]
) -> None:
    """Claude Code deletes what nobody wrote to for 30 days, some seconds after it was started."""
    thread = recorded("claude")
    past = time.time() - 100 * 86_400
    os.utime(thread.path, (past, past))
    before = kept(world, "claude")
    with pytest.raises(AuthorFailed, match="did not answer within"):
        ask_agent(get_harness("claude"), thread, SLOW, seconds=12)

    assert (world.home / ".claude" / ".last-cleanup").exists()
    assert kept(world, "claude") == before
