"""States that no hook tells of: what the programs show of themselves is taken over."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
import sqlalchemy as sa
from terminals import Terminal
from tree import FIXTURES

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet.agents.watch import AgentSignals
from tasuki.fleet.handoff.successor_steps import await_registration
from tasuki.fleet.handoff.workflow import StepLimits
from tasuki.fleet.service import open_fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.tmux.panes import TmuxPanes

SESSION = "5e55104d-0000-4000-8000-000000000001"
PID = 4711


class Fleet:
    """One agent of Claude Code, and the file in which the program tells of itself."""

    def __init__(self, database: FleetDatabase, panes: TmuxPanes, folder: Path) -> None:
        self.database = database
        self.panes = panes
        self.signals = AgentSignals(database, panes, ChangeFeed(), lambda _: None)
        self.file = folder / "sessions" / f"{PID}.json"
        self.file.parent.mkdir()

    def agent(self, state: str, **values: Any) -> None:
        """The agent is in a state, as far as is known."""
        row = {"harness": "claude", "state": state, "state_at": time.time(), "cwd": "/", "host": "h",
               "started_at": 1.0, "session": SESSION, "process": PID, **values}  # fmt: skip
        with self.database.write() as connection:
            connection.execute(sa.insert(tables.agents).values(**row))

    def shows(self, status: str) -> None:
        """The program tells a state."""
        self.file.write_text(json.dumps({"sessionId": SESSION, "status": status}))

    def looked(self, times: int = 2) -> str:
        """The agent's state after some looks."""
        for _ in range(times):
            self.signals.check_agents(queries.list_agents(self.database))
        return queries.list_agents(self.database)[0].state


@pytest.fixture
def fleet(
    database: FleetDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    """A fleet without a server, on both databases."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    terminal = Terminal(tmp_path)
    yield Fleet(database, TmuxPanes(terminal, tmp_path / "locks"), tmp_path)
    terminal.end()


@pytest.mark.parametrize(
    ("known", "status", "state"),
    [
        ("busy", "idle", "idle"),
        ("waiting", "busy", "busy"),
        ("waiting", "idle", "idle"),
        ("idle", "busy", "busy"),
        ("busy", "waiting", "waiting"),
        ("busy", "busy", "busy"),
        ("busy", "of a later version", "busy"),
        ("starting", "idle", "starting"),
        ("compacting", "busy", "compacting"),
    ],
)
def test_what_the_program_shows_is_taken_over(
    fleet: Fleet, known: str, status: str, state: str
) -> None:
    """Escape, a question that was answered: the state follows, unless the agent starts or compacts."""
    fleet.agent(known)
    fleet.shows(status)

    assert fleet.looked() == state


@pytest.mark.parametrize(
    ("seconds", "status", "state"),
    [(130, "idle", "idle"), (130, "busy", "compacting"), (30, "idle", "compacting")],
)
def test_a_compaction_that_was_broken_off_ends(
    fleet: Fleet, seconds: int, status: str, state: str
) -> None:
    """Escape is told by no hook; after two minutes what the program shows is taken over."""
    fleet.agent("compacting", state_at=time.time() - seconds)
    fleet.shows(status)

    assert fleet.looked() == state


def test_a_turn_that_was_broken_off_is_over(fleet: Fleet) -> None:
    """The next prompt is none that is queued behind it."""
    fleet.agent("busy", turn_at=1.0)
    fleet.shows("idle")
    fleet.looked()

    with fleet.database.read() as connection:
        assert connection.execute(sa.select(tables.agents.c.turn_at)).scalar_one() is None


def test_one_look_is_not_enough(fleet: Fleet) -> None:
    """The hook that tells the same may be on its way."""
    fleet.agent("busy")
    fleet.shows("idle")

    assert fleet.looked(1) == "busy"


def test_two_looks_must_show_the_same_turn(fleet: Fleet) -> None:
    """What changed between two looks is looked at anew."""
    fleet.agent("busy")
    fleet.shows("idle")
    fleet.looked(1)
    with fleet.database.write() as connection:
        connection.execute(sa.update(tables.agents).values(state_at=time.time() + 1))

    assert fleet.looked(1) == "busy"
    assert fleet.looked(1) == "idle"


def test_the_log_tells_of_it(fleet: Fleet) -> None:
    """One line, which says that it was seen and not told."""
    fleet.agent("busy")
    fleet.shows("idle")
    fleet.looked(4)

    (line,) = queries.list_events_after(fleet.database, 0, limit=10)
    assert (line.kind, line.data) == ("idle", {"seen": True})


def begins(fleet: Fleet, harness: str, screen: str, seconds: float) -> FleetAgent:
    """An agent that was started so long ago, with the screen of a real program, after two looks."""
    show(fleet, harness, screen, seconds)
    fleet.looked()
    return queries.list_agents(fleet.database)[0]


def show(fleet: Fleet, harness: str, screen: str, seconds: float) -> None:
    """An agent that was started so long ago has the screen of a real program."""
    terminal = fleet.panes.tmux
    assert isinstance(terminal, Terminal)
    file = FIXTURES / f"{screen}.txt"
    pane = terminal.open(["sh", "-c", f"cat {file}; sleep 600"], file.parent, 130, 45)
    terminal.shows(pane, file.read_text().strip().rpartition("\n")[2].strip())
    fleet.agent("starting", harness=harness, pane=pane, session="", process=None,
                started_at=time.time() - seconds)  # fmt: skip


@pytest.mark.parametrize(
    ("harness", "screen", "text", "choices"),
    [
        ("claude", "questions/claude-trust", "Quick safety check: Is this a project you created or one you trust?",
         ["No, exit", "Yes, I trust this folder"]),
        ("claude", "questions/claude-bypass", "https://code.claude.com/docs/en/security", ["No, exit", "Yes, I accept"]),
        ("codex", "questions/codex-folder", "Trust this folder?", ["Trust and continue", "Back to Agent Command Center"]),
        ("codex", "questions/codex-hooks", "Hooks can run outside the sandbox",
         ["Review hooks", "Trust all and continue", "Continue without trusting (hooks won't run)"]),
        ("gemini", "questions/gemini-trust", "Do you trust the files in this folder?",
         ["Trust folder (shop)", "Trust parent folder (work)", "Don't trust"]),
    ],
)  # fmt: skip
def test_a_dialog_before_the_first_hook_is_a_question(
    fleet: Fleet, harness: str, screen: str, text: str, choices: list[str]
) -> None:
    """The folder, the terms, the hooks: it waits for the user, with that question and its choices."""
    agent = begins(fleet, harness, screen, 3.0)

    assert (agent.state, agent.question and agent.question.obstacle) == ("waiting", "")
    assert agent.question
    assert agent.question.text.startswith(text)
    assert [choice.label for choice in agent.question.choices] == choices


def test_a_successor_that_asks_at_the_last_moment_is_waited_for(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Its time to register is over, and nobody has noted the question yet that its screen shows."""
    opened = open_fleet(tmp_path / "fleet", fleet.database.url, LoadedSettings(Settings()))
    context = opened.step_runner.context
    context.limits = StepLimits(register=0.05, idle=30.0)
    context.delivery.panes = fleet.panes
    records.persona(fleet.database)
    show(fleet, "claude", "questions/claude-trust", 3.0)
    records.handoff(fleet.database, "ab" * 16, 1, successor_id=1, step="register")
    handoff = queries.load_handoff(fleet.database, "ab" * 16)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(await_registration, context, handoff)
        time.sleep(0.5)
        with fleet.database.write() as connection:
            connection.execute(sa.update(tables.agents).values(registered_at=time.time()))
        note = waiting.result(30)
    opened.close()

    assert note == "once its question was answered"


@pytest.mark.parametrize(
    ("harness", "sign", "below"),
    [("claude", "❯", f"{'─' * 100}\n  ? for shortcuts"), ("codex", "›", "\n  gpt-6 · ~/shop")],
)
def test_a_list_in_the_input_is_no_dialog(
    fleet: Fleet, tmp_path: Path, harness: str, sign: str, below: str
) -> None:
    """What the user has begun to write asks nothing, though it looks like the choices of a dialog."""
    file = tmp_path / "draft.txt"
    rule = "─" * 100 if harness == "claude" else ""
    file.write_text(f"  Welcome\n\n{rule}\n{sign} 1. Mend the parser\n  2. Add a test\n{below}\n\n")

    assert begins(fleet, harness, str(file.with_suffix("")), 3.0).state == "starting"


def test_a_screen_that_is_not_known_waits_for_the_user_after_a_while(fleet: Fleet) -> None:
    """Its last words say what it shows, once 20 seconds have gone by without a hook."""
    assert begins(fleet, "claude", "screens/claude-theme", 3.0).state == "starting"
    with fleet.database.write() as connection:
        connection.execute(sa.update(tables.agents).values(started_at=time.time() - 21))
    fleet.looked()
    agent = queries.list_agents(fleet.database)[0]

    assert (agent.state, agent.question) == ("waiting", None)
    assert agent.waiting_for.startswith("It has not begun. Its screen shows: ")
    assert "Syntax theme" in agent.waiting_for


@pytest.mark.parametrize("agent", [{"session": ""}, {"process": None}, {"harness": "pi"}])
def test_an_agent_that_shows_nothing_stays_as_it_is(fleet: Fleet, agent: dict[str, Any]) -> None:
    """Without a session or a signal nothing is known."""
    fleet.agent("busy", **agent)
    if "process" not in agent:
        fleet.shows("idle")

    assert fleet.looked() == "busy"


def test_a_pane_that_is_gone_is_no_answer(fleet: Fleet) -> None:
    """An agent that waits is looked at on its screen; one that has none any more keeps its state."""
    fleet.agent("waiting", pane="%99")
    fleet.shows("busy")

    assert fleet.looked() == "waiting"
