"""Real programs that compact: how each is brought to it, and a model whose summaries leave rules out.

Each way was found by running the program. Asked for (`/compact`) it compacts in a terminal; by
itself in the middle of a turn, as soon as the scripted model says that it read a full window.
"""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from agents import PROGRAMS
from conftest import World, is_title
from fakes.model_server import ModelRequest, ModelRule, ModelStep
from inside import typed
from msgspec import Struct
from waiting import retry_until

RULES = (
    "Never change the public signature of `login()`, the mobile team imports it.",
    "Always run `make check` before you commit anything.",
    "Do not touch the files under vendor/, they are generated.",
    "Keep every error message in English, support searches for them.",
    "Use pnpm and never npm in this repository.",
)
"""What the user asks for, in their own words."""
COMPACTIONS = 5
OPENING = "Today we look at the login service."
NEXT = "Which of its files did you read?"
SAID = f"Five things before we begin. {' '.join(RULES)} Is that clear?"
TASK = "Work through the notes, one after the other."
LONG = 11_000
"""Words of a prompt beside which no other stands word by word after a compaction."""
READ = 9000
"""Tokens of a request that leaves room."""
SECONDS = 120


def words(name: object, count: int) -> str:
    """A text of words that all differ: oh-my-pi interrupts a model that repeats itself."""
    return " ".join(f"w{name}x{number}" for number in range(count))


def held(compaction: int) -> tuple[str, str]:
    """The two rules that the summary of a compaction holds, counted from 1: others each time."""
    return RULES[compaction % 5], RULES[(compaction + 2) % 5]


def mark(compaction: int) -> str:
    """What only the summary of one compaction says."""
    return f"This is summary number {compaction} of the work."


def summary(compaction: int) -> str:
    """A summary that leaves three of the rules out."""
    return f"{mark(compaction)} The user asked: {' '.join(held(compaction))}"


def _lines(pattern: str, wanted: str) -> Callable[[Path], int]:
    """A counter of the lines below a home that match."""

    def count(home: Path) -> int:
        texts = [path.read_text(errors="replace") for path in home.glob(pattern) if path.is_file()]
        return sum(len(re.findall(wanted, text, re.MULTILINE)) for text in texts)

    return count


def _rows(home: Path) -> int:
    """How many summaries opencode has finished."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("select data from message").fetchall()
    found = [json.loads(data) for (data,) in rows]
    return sum(one.get("summary") is True and bool(one.get("finish")) for one in found)


def _json(world: World, path: str, **more: Any) -> None:
    """Add to a JSON file of the home."""
    world.write(path, {**json.loads((world.home / path).read_text()), **more})


class Way(Struct, frozen=True):
    """How one program is brought to compact, and what shows that it has."""

    asks: str
    """How the last text begins by which it asks the model for a summary, as an expression."""
    full: int
    """Tokens that the model must have read for the program to compact by itself."""
    compactions: Callable[[Path], int]
    """How many compactions its threads below a home record."""
    headless: tuple[str, ...]
    """Its command without a screen; the prompt comes last."""
    going_on: tuple[str, ...]
    """The same that continues the newest thread."""
    screen: tuple[str, ...]
    """Its command with a screen that continues the newest thread; the prompt comes last."""
    ready: str = ""
    """Text on the screen of a program that takes no prompt there."""
    command: str = "/compact"
    answer: str = "{}"
    """What it wants around a summary."""
    twice: bool = False
    """It asks for each summary twice; the second answer counts."""
    repeats: bool = False
    """What the user typed stands beside its summaries word by word: the first prompts and the last."""
    calls: int = 2
    """Requests of a task from one compaction to the next: Claude Code gives up when there are too few."""
    once: bool = False
    """It compacts no more than once in a turn."""
    late: int = 0
    """Requests in the middle of a turn that no hook reaches before the next."""
    settings: Callable[[World], None] = lambda _: None

    def is_summary(self, request: ModelRequest) -> bool:
        """Whether a request asks for a summary."""
        return bool(re.match(self.asks, request.prompt))


CLAUDE = ("--autocompact", "100000")
CODEX = (
    "--dangerously-bypass-hook-trust",
    "-c",
    "model_auto_compact_token_limit=50000",
)
COPILOT = ("--allow-tool", "shell(cat notes.txt)")
THREAD = "{thread}"
"""Stands for the id of the newest thread."""
SESSIONS = '^{"type":"compaction"'


def _pi(world: World) -> None:
    _json(world, ".pi/agent/settings.json", compaction={"keepRecentTokens": 200})


def _omp(world: World) -> None:
    path = world.home / ".omp/agent/config.yml"
    path.write_text(f"{path.read_text()}compaction: {{keepRecentTokens: 200}}\n")


def _opencode(world: World) -> None:
    _json(world, ".config/opencode/opencode.json", compaction={"tail_turns": 0})


WAYS = {
    "claude": Way(
        asks="CRITICAL: Respond with TEXT ONLY",
        full=97_000,
        compactions=_lines(PROGRAMS["claude"].threads, '"subtype":"compact_boundary"'),
        headless=("claude", *CLAUDE, "-p"),
        going_on=("claude", *CLAUDE, "--continue", "-p"),
        screen=("claude", *CLAUDE, "--resume", THREAD),
        answer="<analysis>So far.</analysis>\n<summary>{}</summary>",
        calls=5,
    ),
    "codex": Way(
        asks="You are performing a CONTEXT CHECKPOINT COMPACTION",
        full=60_000,
        compactions=_lines(PROGRAMS["codex"].threads, '"type":"compacted"'),
        headless=("codex", "exec", "--sandbox", "read-only", *CODEX),
        going_on=("codex", "exec", "--sandbox", "read-only", *CODEX, "resume", "--last"),
        screen=("codex", "--no-daemon", *CODEX, "resume", THREAD),
        repeats=True,
    ),
    "pi": Way(
        asks="<conversation>|# Conversation",
        full=127_000,
        compactions=_lines(PROGRAMS["pi"].threads, SESSIONS),
        headless=("pi", "-p"),
        going_on=("pi", "--continue", "-p"),
        screen=("pi", "--continue"),
        settings=_pi,
    ),
    "omp": Way(
        asks="<conversation>|<critical>\nWrite a handoff document",
        full=127_000,
        compactions=_lines(PROGRAMS["omp"].threads, SESSIONS),
        headless=("omp", "--no-title", "-p"),
        going_on=("omp", "--no-title", "--continue", "-p"),
        screen=("omp", "--no-title", "--continue"),
        settings=_omp,
    ),
    "gemini": Way(
        asks="(Generate a new|A previous|Critically evaluate the) <state_snapshot>",
        full=600_000,
        compactions=_lines(PROGRAMS["gemini"].threads, r'^{"\$set":{"messages".*<state_snapshot>'),
        headless=("gemini", "-p"),
        going_on=("gemini", "-r", "latest", "-p"),
        screen=("gemini", "-r", "latest", "-i"),
        command="/compress",
        answer="<state_snapshot>{}</state_snapshot>",
        twice=True,
        once=True,
    ),
    "opencode": Way(
        asks="Here is the conversation so far:",
        full=127_000,
        compactions=_rows,
        headless=("opencode", "run"),
        going_on=("opencode", "run", "--continue"),
        screen=("opencode", "--continue"),
        ready="ctrl+p",
        settings=_opencode,
    ),
    "copilot": Way(
        asks="Please create a detailed summary of the conversation so far",
        full=105_000,
        compactions=_lines(PROGRAMS["copilot"].threads, '^{"type":"session.compaction_complete"'),
        headless=("copilot", *COPILOT, "-p"),
        going_on=("copilot", *COPILOT, "--continue", "-p"),
        screen=("copilot", *COPILOT, "--continue", "-i"),
        repeats=True,
        calls=5,
        late=1,
    ),
}


class Talk:
    """A world in which one program talks to a model that summarises badly."""

    def __init__(self, world: World, name: str, compactions: int = COMPACTIONS) -> None:
        self.world, self.program, self.way = world, PROGRAMS[name], WAYS[name]
        self.compactions = compactions
        (world.project / "notes.txt").write_text("The keepalive of the gateway: see ops.\n")
        self.program.prepare(world)
        self.way.settings(world)
        world.model.rules = (ModelRule("", (ModelStep(reply=self._reply),)),)

    def requests(self, until: int | None = None) -> list[ModelRequest]:
        """What was asked up to the request of a number, without titles and other side requests."""
        log = list(self.world.model.log)[: None if until is None else until + 1]
        return [
            r for r in log if self.way.is_summary(r) or (r.body.get("tools") and not is_title(r))
        ]

    def after(self, compaction: int) -> list[ModelRequest]:
        """The requests that hold the summary of a compaction, but not those for the next summary."""
        found = self.world.sent(mark(compaction))
        return [request for request in found if not self.way.is_summary(request)]

    def said(self) -> None:
        """Have a conversation without a screen: five rules, and what is said around them."""
        before, after = (f"Mind these names: {words(name, LONG)}" for name in ("a", "b"))
        prompts = (OPENING, before, SAID, after) if self.way.repeats else (SAID, NEXT)
        first, *rest = prompts
        self._run(*self.way.headless, first)
        for prompt in rest:
            self._run(*self.way.going_on, prompt)

    def worked(self) -> None:
        """Give a task, or one for each compaction, in whose middle the program compacts by itself."""
        for part in range(1, self.compactions + 1) if self.way.once else (1,):
            self._run(*self.way.going_on, f"{TASK} Part {part}.")

    def fill_once(self, ends: str) -> None:
        """Give a task in whose middle the context is full, until a request holds a text."""

        def reply(request: ModelRequest) -> ModelStep:
            if request.count_text(ends):
                return ModelStep("All notes are read.", read=READ)
            if self.way.is_summary(request):
                return ModelStep(self.way.answer.format(summary(1)), read=READ)
            number = sum(TASK in one.prompt for one in self.requests(request.number))
            call = (self.program.call(),)
            return ModelStep("Next note.", call, read=self.way.full if number > 1 else READ)

        self.world.model.rules = (ModelRule("", (ModelStep(reply=reply),)),)
        self._run(*self.way.going_on, TASK)

    def opened(self) -> str:
        """Open the thread in a terminal; its pane."""
        first = "Round 0: are you there?"
        newest = max(self.program.files(self.world.home), key=lambda path: path.stat().st_mtime)
        command = [word.replace(THREAD, newest.stem[-36:]) for word in self.way.screen]
        command += [] if self.way.ready else [first]
        pane = self.world.run(command)
        if self.way.ready:
            self.world.shows(pane, self.way.ready, SECONDS)
            self.world.until_quiet(pane)
            typed(self.world, pane, first)
        retry_until(lambda: self.world.sent(first), SECONDS)
        self.world.until_quiet(pane)
        return pane

    def compacted(self, pane: str, compaction: int) -> None:
        """Ask for a compaction in a terminal, and wait until it is recorded.

        opencode takes an Enter that comes too early for its list of commands alone.
        """
        before = len(self._summaries())
        typed(self.world, pane, self.way.command)
        with suppress(AssertionError):
            retry_until(lambda: len(self._summaries()) > before, 10)
        if len(self._summaries()) == before:
            self.world.terminal.keys(pane, "Enter")
        retry_until(lambda: self.way.compactions(self.world.home) >= compaction, SECONDS)
        self.world.until_quiet(pane)

    def asked(self, pane: str, round: int) -> ModelRequest:
        """Type a prompt in a terminal; the first request to the model after the compaction."""
        typed(self.world, pane, f"Round {round}: go on with the notes.")
        retry_until(lambda: self.after(round), SECONDS)
        retry_until(lambda: self.world.sent(f"Round {round}:"), SECONDS)
        self.world.until_quiet(pane)
        return self.after(round)[0]

    def _summaries(self) -> list[ModelRequest]:
        return [request for request in list(self.world.model.log) if self.way.is_summary(request)]

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)

    def _reply(self, request: ModelRequest) -> ModelStep:
        """A summary that leaves rules out, a call of the task, or a long answer."""
        seen = self.requests(request.number)
        if self.way.is_summary(request):
            return ModelStep(self._summary(seen), read=READ)
        if not any(TASK in one.prompt for one in seen):
            return ModelStep(f"Fine. {words(request.number, 600)}", read=READ)
        since, goal = self._progress(seen)
        full = since == self.way.calls
        if full and len(self._firsts(seen)) == goal:
            return ModelStep("All notes are read.", read=READ)
        text = f"Next note. {words(request.number, 600)}"
        return ModelStep(text, (self.program.call(),), read=self.way.full if full else READ)

    def _progress(self, seen: list[ModelRequest]) -> tuple[int, int]:
        """Requests since the task or the last summary, and the compactions after which the task ends."""
        parts = [n for n, one in enumerate(seen) if TASK in one.prompt]
        last = re.findall(rf"{TASK} Part (\d)", seen[parts[-1]].prompt)[-1]
        begun = next(n for n in parts if f"{TASK} Part {last}" in seen[n].prompt)
        asks = [n + 1 for n, one in enumerate(seen) if self.way.is_summary(one)]
        goal = int(last) if self.way.once else self.compactions
        return len(seen) - max(begun, *asks, 0), goal

    def _firsts(self, seen: list[ModelRequest]) -> list[int]:
        """Where each compaction began: the first of its requests for a summary."""
        asks = [self.way.is_summary(one) for one in seen]
        return [n for n, ask in enumerate(asks) if ask and not (n and asks[n - 1])]

    def _summary(self, seen: list[ModelRequest]) -> str:
        firsts = self._firsts(seen)
        if firsts[-1] != len(seen) - 1 and not self.way.twice:
            return "Nothing else."
        return self.way.answer.format(summary(len(firsts)))
