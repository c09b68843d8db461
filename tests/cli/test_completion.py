"""What shells offer behind `tasuki`: names of harnesses, ids, and never an error."""

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import World, chain
from terminals import Terminal
from waiting import retry_until

from tasuki.cli import completions


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home folder with two handoffs."""
    return World(tmp_path)


def offered(world: World, line: str, incomplete: str = "") -> list[str]:
    """The words that bash gets behind a line."""
    words = f"{line} {incomplete}".rstrip()
    number = str(len(line.split()))
    asked = {"_TASUKI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": number}
    done = world.run(**asked)

    assert (done.returncode, done.stderr) == (0, "")
    return [row.partition(",")[2] for row in done.stdout.split()]


@pytest.mark.parametrize(
    "line",
    ["tasuki handoff --to", "tasuki --to", "tasuki start abcd --to", "tasuki install", "tasuki uninstall",
     "tasuki agent start --harness", "tasuki persona add --harness", "tasuki hook"],
)  # fmt: skip
def test_harnesses_that_can_be_started_are_offered(world: World, line: str) -> None:
    """Only those: aider is read, and nothing is started in it."""
    assert offered(world, line, "c") == ["claude", "codex", "copilot"]
    assert offered(world, line, "a") == []


def test_names_and_ids_are_offered_where_they_are_taken(world: World) -> None:
    """The newest handoffs by their first digits, the threads of this folder, all harnesses."""
    first, second, path = chain(world)
    handoffs, thread = {first[:8], second[:8]}, path.stem

    assert set(offered(world, "tasuki show")) == handoffs
    assert set(offered(world, "tasuki start")) == handoffs
    assert {*handoffs, thread} < set(offered(world, "tasuki lineage"))
    assert {*handoffs, thread, "claude", "aider"} < set(offered(world, "tasuki read"))
    assert {thread, "claude", "aider"} < set(offered(world, "tasuki handoff --from"))
    assert offered(world, "tasuki handoff --from", "./x") == ["./x"]
    assert "aider" in offered(world, "tasuki doctor")
    assert offered(world, "tasuki threads --harness", "ai") == ["aider"]
    assert offered(world, "tasuki", "linea") == ["lineage"]


@pytest.mark.parametrize("line", ["tasuki hanoff x", "tasuki handoff --nons", "tasuki show"])
def test_nothing_is_said_where_something_is_wrong(world: World, line: str) -> None:
    """A mistyped line and a damaged vault are silent."""
    (world.data / "handoffs" / ("a" * 32)).mkdir(parents=True)
    (world.data / "handoffs" / ("a" * 32) / "handoff.json").write_text("{")

    offered(world, line)


def test_a_damaged_handoff_hides_no_other(world: World) -> None:
    """The newest cannot be read; the ids of the others, and of threads, are offered."""
    first, second, path = chain(world)
    (world.data / "handoffs" / second / "handoff.json").write_text("{")

    assert {first[:8], path.stem} <= set(offered(world, "tasuki lineage"))


def test_what_a_shell_would_run_is_not_offered(world: World) -> None:
    """Bash inserts a word as it is, and the id of a thread is what its file says."""
    path = chain(world)[2]
    path.with_name("x.jsonl").write_text(path.read_text().replace(path.stem, "$(touch x);y"))
    path.with_name("y.jsonl").write_text(path.read_text().replace(path.stem, "a\\nplain,b"))

    assert set(offered(world, "tasuki handoff --from")) >= {path.stem, "claude"}
    assert [word for word in offered(world, "tasuki lineage") if set(word) & set(",;$()")] == []


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell waits a second for files, and gets what was found until then; names are whole."""
    monkeypatch.setattr(completions, "SECONDS", 0.2)

    def find_slowly() -> Iterator[tuple[str, str]]:
        yield "quick", ""
        try:
            time.sleep(5)
        except Exception as error:
            raise AssertionError from error
        yield "slow", ""

    def know_slowly() -> Iterator[tuple[str, str]]:
        time.sleep(0.3)
        yield "known", ""

    began = time.monotonic()
    context = click.Context(click.Command("x"))
    found = completions._offer(find_slowly, known=know_slowly)(context, click.Argument(["x"]), "")

    assert [item.value for item in found] == ["known", "quick"]
    assert time.monotonic() - began < 2


RC = {
    "bash": (".bashrc", "PS1='$ '\n", ("--noprofile", "-i")),
    "zsh": (".zshrc", "autoload -U compinit; compinit -u\nPS1='$ '\n", ("-i",)),
    "fish": (".config/fish/config.fish", "function fish_prompt; echo -n '$ '; end\n", ("-i",)),
}


@pytest.mark.parametrize("shell", RC)
def test_in_a_real_shell(world: World, shell: str) -> None:
    """Tab completes the name of a harness, in a command and without one."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    file, before, arguments = RC[shell]
    path = world.home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    # Else fish reads all manual pages at its first start, and completion is out of time.
    (world.home / ".local/share/fish/generated_completions").mkdir(parents=True)
    load = "tasuki completion fish | source" if shell == "fish" else f'eval "$(tasuki completion {shell})"'  # fmt: skip
    path.write_text(f"{before}{load}\n")
    programs = f"{Path(sys.executable).parent}:{world.env['PATH']}"
    terminal = Terminal(world.home, {**world.env, "PATH": programs})
    try:
        pane = terminal.open([shell, *arguments], world.project, 100, 30)
        terminal.shows(pane, "$ ")
        for typed, completed in (
            ("handoff --to gem", "--to gemini"),
            ("--from cop", "--from copilot"),
        ):
            terminal.run(("send-keys", "-t", pane, "-l", f"tasuki {typed}"))
            terminal.shows(pane, typed)  # A shell that still starts would take Tab for itself.
            terminal.keys(pane, "Tab")
            assert "Error" not in terminal.shows(pane, completed)
            terminal.keys(pane, "C-c")
            retry_until(lambda: terminal.capture_screen(pane).text.rstrip().endswith("$"))
    finally:
        terminal.end()
