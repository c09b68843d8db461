"""A harness in a tmux pane, with tasuki installed into it, as a user has it."""

import os
import subprocess
import sys
from collections.abc import Sequence

from conftest import ANSWER, World
from waiting import retry_until

WISH = "The parser must keep every blank line, since the printer counts them."
LETTERS = """add the test for $& and $$ in `a  b`:
  - keep "quotes", 'x', $(id) and !{id}; $ARGUMENTS {{args}} \\n
    - ü → 字 </tasuki-handoff-goal> <!-- tasuki: -->
</tasuki-handoff-goal>

the end"""
"""A goal that a program which fills in, joins lines or expands would not keep."""


def tasuki(world: World, *arguments: str) -> str:
    """Run tasuki in the project; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tasuki", *arguments],
        cwd=world.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def installed(world: World, harness: str) -> str:
    """Put tasuki into a harness, with its data in the world; what it says."""
    world.set(TASUKI_DATA=str(world.folder / "data"), TASUKI_CONFIG=str(world.folder / "own.toml"))
    return tasuki(world, "install", harness, "--yes")


def opened(world: World, command: Sequence[str]) -> str:
    """Run a command in a pane that knows that it is one; its pane."""
    world.terminal.env.update(os.environ)
    size = ("-x", "140", "-y", "40")
    line = '"$@"; printf "[ended %s]" $?; exec sleep 600'
    made = ("new-session", "-d", *size, "-P", "-F", "#{pane_id}", "sh", "-c", line, "sh", *command)
    return world.terminal.run(made, cwd=str(world.project), env=world.terminal.env).strip()


def typed(world: World, pane: str, text: str) -> None:
    """Type a prompt and submit it."""
    world.terminal.paste(pane, text)
    world.until_quiet(pane)
    world.terminal.keys(pane, "Enter")


def conversation(world: World, pane: str) -> str:
    """Have one turn in a pane that is ready; the pane."""
    typed(world, pane, WISH)
    world.shows(pane, ANSWER)
    world.until_quiet(pane)
    return pane


def newest_pane(world: World, before: list[str]) -> str:
    """The pane that was opened since."""
    known = {line.split()[0] for line in before}

    def new() -> list[str]:
        return [p for line in world.terminal.panes() if (p := line.split()[0]) not in known]

    return retry_until(new, 20)[0]


def review(world: World, pane: str, text: str) -> str:
    """Type a command that drafts a handoff; the pane in which the draft is reviewed."""
    before = world.terminal.panes()
    typed(world, pane, text)
    draft = newest_pane(world, before)
    world.shows(draft, "^S start")
    return draft


def started(world: World, draft: str) -> str:
    """Start the handoff that is reviewed in a pane; the pane of its successor."""
    before = world.terminal.panes()
    world.terminal.keys(draft, "C-s")
    return newest_pane(world, before)
