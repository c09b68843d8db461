"""Real programs in the panes of a fleet: opened by an order, and typed into once."""

import json
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from conftest import World
from fakes.model_server import ModelRule, ModelStep
from pane_programs import submit
from waiting import retry_until, runs

from tasuki.launch.tmux.panes import OpenedPane, TmuxPanes

SECONDS = 60
EXITS = {"claude": "/exit", "codex": "/quit", "pi": "/quit"}
READY = {"claude": "❯", "codex": "›", "pi": "scripted"}
ARGUMENTS = {"claude": (), "codex": ("--no-daemon",), "pi": ()}

PASTED = r'\n\n<pasted_content id="(\w+)">\none\ntwo\nthree\nfive\n</pasted_content id="\1">\n?'
"""How a long paste reaches a hook."""


def opened(world: World, panes: TmuxPanes, name: str) -> OpenedPane:
    """A program in a pane, once its screen stands still."""
    order = world.folder / "order.json"
    program = shutil.which(name)
    argv = [program, *ARGUMENTS[name]]
    order.write_text(json.dumps({"argv": argv, "cwd": str(world.project), "env": dict(os.environ)}))
    found = panes.open(order, name, "agent-1", str(world.project))
    world.shows(found.pane, READY[name], SECONDS)
    world.until_quiet(found.pane)
    return found


@pytest.mark.parametrize("name", sorted(EXITS))
def test_a_text_reaches_the_model_once(
    world: World, name: str, request: pytest.FixtureRequest
) -> None:
    """A text of several lines reaches the model as one prompt, once; the exit command ends the program."""
    request.getfixturevalue(f"with_{name}")
    panes = TmuxPanes(world.terminal, world.folder / "locks")
    agent = opened(world, panes, name)
    text = "First line of the words\n- second; #{pane_id}\n" + "\n".join(
        f"- {n}" for n in range(40)
    )

    submit(panes, agent.pane, text, "t-1", 0.5, agent.pid)
    world.shows(agent.pane, "The scripted answer.", SECONDS)
    submit(panes, agent.pane, text, "t-1", 0.5, agent.pid)
    world.until_quiet(agent.pane)
    submit(panes, agent.pane, EXITS[name], "t-2", 0.5, agent.pid)

    retry_until(lambda: not runs(agent.pid), SECONDS)
    retry_until(lambda: agent.pane not in panes.read_status().panes, SECONDS)
    sent = world.sent("First line of the words")
    assert len(sent) == 1
    assert sent[0].count_text(text) == 1


def test_what_the_scripted_harness_copies(with_claude: World) -> None:
    """Claude Code shows a paste of three lines itself, one of four by a name; a prompt that waits is
    told at once, with the id of the turn that goes on, and its turn ends with an id of its own."""
    world, seen, go = with_claude, with_claude.folder / "seen.jsonl", threading.Event()
    held = ModelStep(reply=lambda _: "First." if go.wait(SECONDS) else "")
    world.model.rules = (ModelRule("five", (held,)), *world.model.rules)
    recorded(world, seen)
    panes = TmuxPanes(world.terminal, world.folder / "locks")
    pane = opened(world, panes, "claude").pane

    panes.paste(pane, "one\ntwo\nthree", "t-1")
    world.shows(pane, "three", SECONDS)
    panes.press_keys(pane, "C-c")
    world.until_quiet(pane)
    panes.paste(pane, "one\ntwo\nthree\nfive", "t-2")
    world.shows(pane, "[Pasted text #", SECONDS)
    panes.enter(pane, "t-2")
    (first,) = retry_until(lambda: told(seen, "UserPromptSubmit"), SECONDS)
    world.shows(pane, "esc to interrupt", SECONDS)
    submit(panes, pane, "and then", "t-3", 0.3)

    _, second = retry_until(lambda: len(p := told(seen, "UserPromptSubmit")) == 2 and p, SECONDS)
    assert told(seen, "Stop") == []
    go.set()
    one, two = retry_until(lambda: len(p := told(seen, "Stop")) == 2 and p, SECONDS)
    assert re.fullmatch(PASTED, first["prompt"])
    assert second["prompt"] == "and then"
    assert first["prompt_id"] == second["prompt_id"] == one["prompt_id"] != two["prompt_id"]
    assert [one["last_assistant_message"], two["last_assistant_message"]] == [
        "First.",
        "A second answer.",
    ]
    assert len(told(seen, "UserPromptSubmit")) == 2


def recorded(world: World, seen: Path) -> None:
    """Add hooks that write the payloads down."""
    hook = {"type": "command", "command": f'cat >> "{seen}"'}
    settings = world.home / ".claude" / "settings.json"
    hooks = {event: [{"hooks": [hook]}] for event in ("UserPromptSubmit", "Stop")}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "hooks": hooks}))


def told(seen: Path, event: str) -> list[dict[str, str]]:
    """The payloads of one event."""
    lines = seen.read_text().splitlines() if seen.exists() else []
    return [p for p in map(json.loads, lines) if p["hook_event_name"] == event]
