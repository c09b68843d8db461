"""Every program hands over to every other: a thread that it really recorded, a successor that really runs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import npm_programs
import pytest
from agents import PROGRAMS, Program
from conftest import ANSWER, World
from fakes.model_server import ModelRule, ModelServer, ModelStep
from selection import by_default
from waiting import retry_until

from tasuki.harness.registry import get_harness

pytestmark = pytest.mark.e2e

GOAL = "Fix the login timeout in src/auth.py and cover it with a test of its own"
WISH = "Never change the public signature of `login()`, the mobile team imports it."
FACT = "The gateway drops idle connections after 61 s, because its keepalive is off."
SECONDS = 120
"""How long a program may take for a step, two others beside it on two cores."""
CACHES = shutil.ignore_patterns(".cache", ".npm", ".bun", "*.sock", "*.ipc")
"""What a program makes anew, and what cannot be copied."""

NAMES = [
    n for n in PROGRAMS if npm_programs.in_every_run(n) or os.environ.get("TASUKI_E2E") == "all"
]
CELLS = [
    pytest.param(
        source,
        to,
        marks=[] if source == to or (source, to) == ("claude", "codex") else [pytest.mark.long],
    )
    for source in NAMES
    for to in NAMES
]
"""By default each program hands off to itself, and Claude Code to Codex."""
SLOW = ("opencode",)
"""Successors that need a whole core for 6 s before they take text: one at a time."""


class Recording(NamedTuple):
    """A home in which a program has recorded one thread, and the project that it is about."""

    home: Path
    project: Path


Recorder = Callable[[str], Recording]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """A program's real thread, recorded once: a wish, a command that ran, an answer."""
    made: dict[str, Recording] = {}

    def record(name: str) -> Recording:
        if name not in made:
            made[name] = _recording(PROGRAMS[name], tmp_path_factory.mktemp(f"from-{name}"))
        return made[name]

    return record


def _recording(program: Program, folder: Path) -> Recording:
    steps = (ModelStep("I read the notes first.", (program.call(),)), ModelStep(FACT))
    rules = [ModelRule("mobile team", steps)]
    with (
        pytest.MonkeyPatch.context() as patch,
        ModelServer(rules, log_file=folder / "model.jsonl") as model,
    ):
        world = World(folder.resolve(), model, patch)
        (world.project / "notes.txt").write_text("The keepalive of the gateway: see ops.\n")
        program.prepare(world)
        done = subprocess.run(
            program.asked(WISH),
            cwd=world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert FACT in done.stdout, (done.stdout, done.stderr)
        assert any("keepalive of the gateway" in t.text for r in model.log for t in r.turns)
        assert program.recorded(world.home)
        return Recording(world.home, world.project)


@pytest.fixture
def cell(world: World, recorded: Recorder) -> Iterator[Callable[[str, str], World]]:
    """A world with a source's home and project, and a successor that is ready to start."""
    waiting = ExitStack()

    def made(source: str, to: str) -> World:
        home, world.project = recorded(source)
        if to in SLOW:
            waiting.enter_context(npm_programs.locked(f"run-{to}"))
        shutil.copytree(home, world.home, symlinks=True, ignore=CACHES, dirs_exist_ok=True)
        PROGRAMS[to].prepare(world)
        world.set(TASUKI_DATA=str(world.folder / "data"))
        world.set(TASUKI_CONFIG=os.devnull)
        return world

    with waiting:
        yield made


def handed(world: World, source: str, to: str, *flags: str) -> str:
    """The pane in which the command runs."""
    program = [sys.executable, "-m", "tasuki", "handoff", "--from", source, "--to", to, "--yes"]
    after = ("--", *PROGRAMS[to].arguments) if PROGRAMS[to].arguments else ()
    return world.run([*program, *flags, GOAL, *after])


def recorded_in(world: World, source: str, to: str) -> dict[str, str]:
    """What the source has recorded."""
    program = PROGRAMS[source]
    return program.recorded_rows(world.home) if source == to else program.recorded(world.home)


def check(world: World, source: str, to: str, pane: str, before: dict[str, str]) -> None:
    """The model got past and goal once, in order; the source is as it was; the start is kept."""
    retry_until(lambda: world.sent(GOAL), SECONDS)
    world.shows(pane, ANSWER, SECONDS)

    (request,) = world.sent(GOAL)
    assert request.prompt.endswith(GOAL)
    assert [request.count_text(text) for text in (WISH, FACT, GOAL)] == [1, 1, 1]
    assert before.items() <= recorded_in(world, source, to).items()
    vault = world.vault
    (handoff,) = vault.list_handoffs()
    assert handoff.predecessor.harness == source
    events = {event.kind: event.detail for event in vault.load_events(handoff.id)}
    assert events["started"]["harness"] == to


@pytest.mark.parametrize(("source", "to"), CELLS)
def test_sent(cell: Callable[[str, str], World], source: str, to: str) -> None:
    """With `--yes --send` the successor's model gets the past and the goal at once."""
    world = cell(source, to)
    before = recorded_in(world, source, to)
    pane = handed(world, source, to, "--send")

    check(world, source, to, pane, before)


def stands_unsent(world: World, to: str, pane: str) -> None:
    """The first prompt stands in the input, and the model knows nothing of it; then Enter."""
    world.shows(pane, PROGRAMS[to].pasted or GOAL, SECONDS)
    world.until_quiet(pane)
    assert world.sent(GOAL) == []
    world.terminal.keys(pane, "Enter")


@pytest.mark.parametrize(
    ("source", "to"),
    by_default(
        [(source, to) for source in NAMES for to in NAMES],
        ("claude", "claude"),
        ("pi", "pi"),
    ),
)
def test_unsent(cell: Callable[[str, str], World], source: str, to: str) -> None:
    """With `--yes` the first prompt stands unsent in the input, and goes with Enter."""
    world = cell(source, to)
    before = recorded_in(world, source, to)
    pane = handed(world, source, to)

    stands_unsent(world, to, pane)
    check(world, source, to, pane, before)


@pytest.mark.parametrize("to", by_default(NAMES, "claude"))
def test_in_a_window(cell: Callable[[str, str], World], to: str) -> None:
    """Inside tmux the successor comes up in a window of its own, the first prompt unsent."""
    world = cell("claude", to)
    before = recorded_in(world, "claude", to)
    world.set(TMUX=f"/tmp/tmux-{os.getuid()}/{world.terminal.socket},0,0")
    own = handed(world, "claude", to)

    world.shows(own, f"started {get_harness(to).title} in tmux", SECONDS)
    (pane,) = (p.split()[0] for p in world.terminal.panes() if not p.startswith(f"{own} "))
    stands_unsent(world, to, pane)
    check(world, "claude", to, pane, before)
