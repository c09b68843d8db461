"""`tasuki` alone, and `tasuki "GOAL"`: what a newcomer types first."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import GOAL, World
from terminals import Terminal

from tasuki.cli.main import COMMANDS, SECTIONS
from tasuki_testing import ThreadBuilder

PROMPT = "What should the next agent do?"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home folder with a project; no agent has worked there."""
    return World(tmp_path)


@pytest.fixture
def screen(world: World) -> Iterator[Terminal]:
    """A terminal in that home folder."""
    made = Terminal(world.home, world.env)
    yield made
    made.end()


def add_threads(world: World, count: int) -> None:
    """Threads of this project."""
    for seed in range(count):
        builder = ThreadBuilder("claude", cwd=str(world.project), seed=seed)
        world.thread(builder.user(f"Why does upload {seed} stall?").assistant("A timeout."))


def test_tasuki_alone_lists_the_newest_threads_and_says_how_to_go_on(world: World) -> None:
    """Ten threads and how many more there are; without a terminal nobody is asked."""
    add_threads(world, 12)
    done = world.run()

    assert done.returncode == 0
    assert done.stdout.count("@") == 10
    assert done.stdout.splitlines()[1:] == world.run("threads").stdout.splitlines()[1:11]
    assert "2 more: tasuki threads --limit 12" in done.stderr
    assert 'tasuki "what the next agent should do"' in done.stderr
    assert not (world.data / "handoffs").exists()


def test_tasuki_alone_says_where_threads_are(world: World) -> None:
    """Where there is none, it names the programs that it reads, or the other folders."""
    nothing = world.run()
    add_threads(world, 1)
    world.project = world.project.parent / "other"
    world.project.mkdir()
    elsewhere = world.run()

    assert (nothing.returncode, elsewhere.returncode) == (0, 0)
    assert "Claude Code, Codex" in nothing.stderr
    assert "tasuki threads --all" not in nothing.stderr
    assert "tasuki threads --all" in elsewhere.stderr
    assert "tasuki --help" in nothing.stderr
    assert "tasuki --help" in elsewhere.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (GOAL,), ("--to", "codex", GOAL), (GOAL, "--print"), ("--print", GOAL, "--to", "pi"),
        ("リトライ回数を設定可能にする",), (GOAL.replace(" ", "\n"),), (GOAL.replace(" ", "\u00a0"),),
    ],
)  # fmt: skip
def test_a_goal_needs_no_command(world: World, arguments: tuple[str, ...]) -> None:
    """`tasuki "GOAL"` is `tasuki handoff "GOAL"`, with all its options."""
    add_threads(world, 1)
    done, named = world.run(*arguments), world.run("handoff", *arguments)

    assert done.returncode == 0, done.stderr
    goal = next(word for word in arguments if not word.startswith("-") and len(word) > 9)
    assert done.stdout.endswith(f"(verbatim)\n{goal}\n")
    assert len(done.stdout) == len(named.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("hanoff",), 2, "Did you mean: tasuki handoff?"),
        (("thread", "--all"), 2, "Did you mean: tasuki threads?"),
        (("instal", "claude", "--yes"), 2, "Did you mean: tasuki install?"),
        (("retries",), 2, "Commands: tasuki --help"),
        (("retries", "--yes", "--tmux"), 2, "Commands: tasuki --help"),
        (("add", "retries", "--yes"), 2, 'A goal has several words, in quotes: tasuki "add retries …"'),
        (("--vesion",), 2, "No such option '--vesion'"),
        (("--to", "codex", "--json"), 3, "A handoff needs a goal."),
        (("--yes", "--tmux", "hanoff"), 3, "Be specific"),
        (("go on please", "--yes", "--tmux"), 3, "Be specific"),
        (("",), 2, "No command ''."),
    ],
)  # fmt: skip
def test_a_mistyped_command_starts_nothing(
    world: World, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """One word is no goal: it gets advice, whatever comes after it."""
    add_threads(world, 1)
    done = world.run(*arguments)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert not (world.data / "handoffs").exists()


def test_in_a_terminal_tasuki_alone_asks_for_the_goal(world: World, screen: Terminal) -> None:
    """A vague goal is asked for again; then the brief is there for review, as by `tasuki handoff`."""
    add_threads(world, 1)
    pane = screen.open([sys.executable, "-m", "tasuki"], world.project, 140, 40)
    screen.shows(pane, PROMPT)
    screen.keys(pane, "go on", "Enter")
    screen.shows(pane, "does not say what to do")
    screen.keys(pane, GOAL, "Enter")

    assert f"Goal: {GOAL}" in screen.shows(pane, "save only", 20)
    screen.keys(pane, "Escape")
    assert "Nothing was started" in screen.shows(pane, "[ended 130]", 20)


def test_in_a_terminal_enter_alone_starts_nothing(world: World, screen: Terminal) -> None:
    """No goal, no handoff, and no error; a second thread is named only where there is one."""
    add_threads(world, 1)
    pane = screen.open([sys.executable, "-m", "tasuki"], world.project, 100, 30)
    screen.shows(pane, PROMPT)
    screen.keys(pane, "Enter")

    said = screen.shows(pane, "[ended 0]")
    assert "Nothing was started." in said
    assert "@2" not in said
    assert not (world.data / "handoffs").exists()


@pytest.mark.parametrize("command", [("handoff", "--"), ("--",), ("handoff", "--to", "pi", "--")])
def test_a_goal_may_begin_with_a_dash(world: World, command: tuple[str, ...]) -> None:
    """Behind `--`, one argument of several words is the goal where no other is given."""
    add_threads(world, 1)
    goal = "-1 is returned by parse(), raise ValueError instead"
    done = world.run(*command, goal)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"(verbatim)\n{goal}\n")


@pytest.mark.parametrize(
    "arguments",
    [("handoff", "-fix the parser"), ("-fix the parser",), ("handoff", "--", "-goal"), ("handoff", "--", "--model", "x")],
)  # fmt: skip
def test_a_goal_taken_for_an_option_says_how_to_write_it(
    world: World, arguments: tuple[str, ...]
) -> None:
    """The error names both ways: behind `--`, and from standard input."""
    add_threads(world, 1)
    done = world.run(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert "A goal that begins with a dash: tasuki handoff -- " in done.stderr
    assert "--goal-file -" in done.stderr


def test_help_shows_every_command_once() -> None:
    """The sections of `--help` hold each command, and nothing else."""
    shown = " ".join(SECTIONS.values()).split()

    assert sorted(shown) == sorted(COMMANDS)
