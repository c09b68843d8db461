"""The commands of `docs/fleet.md`, typed as they stand there, with the real Claude Code."""

import re

import pytest
from conftest import World
from real_fleet import SECONDS, SKILL, RealFleet, tooled
from tree import ROOT
from waiting import retry_until

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs" / "fleet.md"


def commands() -> list[str]:
    """The commands of the first five minutes, without their comments."""
    section = PAGE.read_text(encoding="utf-8").split("## Five minutes with Claude Code", 1)[1]
    block = section.split("```console\n", 1)[1].split("```", 1)[0]
    return [
        line[2:].split("  #")[0].strip() for line in block.splitlines() if line.startswith("$ ")
    ]


@pytest.mark.long
def test_the_five_minutes(with_claude: World) -> None:
    """An operator who types what the page says has handed off, and finds the successor at work."""
    fleet = RealFleet(with_claude, "claude")
    fleet.writes(tooled("Write"))
    (fleet.work / "skill.md").write_text(SKILL)
    (fleet.work / "your").mkdir()
    (fleet.work / "your" / "project").symlink_to(fleet.work)
    server, shell = (with_claude.run(["env", f"PATH={fleet.env['PATH']}", "sh"]) for _ in range(2))
    serve, *others = commands()
    with_claude.terminal.keys(server, serve, "Enter")
    try:
        with_claude.shows(server, "The fleet is served at", SECONDS)
        for command in others:
            typed(with_claude, shell, command)
            if "attach" in command:
                with_claude.shows(shell, "0:developer-con-1*", SECONDS)  # of tmux
                with_claude.terminal.keys(shell, "C-b", "d")
            if command.startswith("tasuki install"):
                for shown in ("+ tasuki's tools", "tasuki's server: SessionEnd"):
                    with_claude.shows(shell, shown)
                    with_claude.shows(shell, "Add this? [Y/n]:")
                    with_claude.terminal.keys(shell, "y", "Enter")
            if command.startswith("tasuki agent start"):
                retry_until(lambda: len(fleet.api("GET", "/api/agents")["agents"]) == 1, SECONDS)
                fleet.idle(1)
        shown = with_claude.shows(shell, "is done", 2 * SECONDS)
        found = fleet.api("GET", "/api/handoffs")["handoffs"]
        successor = fleet.agent(fleet.idle(found[0]["successor_id"]))
    finally:
        with_claude.terminal.keys(server, "C-c")
        with_claude.shows(server, "Stopped.")
        fleet.close()

    assert [of["state"] for of in found] == ["done"]
    assert (successor["persona"], successor["state"]) == ("developer-con-1", "idle")
    assert "acknowledge" in shown


def typed(world: World, shell: str, command: str) -> None:
    """Type a command, once the one before has ended."""
    retry_until(lambda: re.search(r"[$#]\s*$", world.until_quiet(shell).rstrip("\n")), SECONDS)
    world.terminal.keys(shell, command, "Enter")
