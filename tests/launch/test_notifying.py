"""Where alerts come from, each kind once, and what becomes of one that several places are told."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_records as records
import pytest
import sqlalchemy as sa
from fleets import World
from inboxes import Inbox
from terminals import Terminal
from waiting import retry_until

from tasuki import notify
from tasuki.config import settings
from tasuki.fleet import alerts
from tasuki.fleet.agents.lifecycle import AgentLifecycle
from tasuki.fleet.agents.watch import AgentSignals
from tasuki.fleet.alerts import AlertNotifier
from tasuki.fleet.automation import AutomationGuard
from tasuki.fleet.hooks.correlator import HookPost, hash_token
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent
from tasuki.launch.tmux.panes import TmuxPanes

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # apprise imports it
ALL = "done failed limited needs_you stuck threshold unacknowledged"
SESSION = "5e55104d-0000-4000-8000-000000000001"
PID = 4711


@pytest.fixture
def gone() -> str:
    """An address at which nobody answers any more."""
    made = Inbox()
    made.close()
    return made.where


class Hooks:
    """What hooks of Claude Code tell of one agent."""

    def __init__(self, database: FleetDatabase, **agent: Any) -> None:
        self.intake = EventIntake(
            database, ChangeFeed(), "h", read_skill=str, threshold=80.0, on_commit=lambda *_: None
        )
        self.agent = records.agent(
            database, session=SESSION, token_hash=hash_token("t"), pane="%5", **agent
        )

    def tell(self, *payloads: dict[str, Any]) -> None:
        """Events, each once the one before is taken in."""
        for payload in payloads:
            done = threading.Event()
            body = json.dumps({"session_id": SESSION, "cwd": "/", **payload}).encode()
            post = HookPost("claude", body, token="t", pid=os.getpid())
            self.intake.put(post, lambda _, done=done: done.set())  # type: ignore[misc]
            assert done.wait(20)


@pytest.fixture
def hooks(database: FleetDatabase) -> Iterator[Hooks]:
    """Hooks of an agent with a persona, on SQLite and on PostgreSQL."""
    records.persona(database)
    made = Hooks(database, persona=records.SLUG, state="busy")
    made.intake.start()
    yield made
    made.intake.close(10)


def asks(name: str = "Notification") -> dict[str, Any]:
    """A hook that tells that the agent asks the user."""
    of = {"notification_type": "permission_prompt", "message": "May it run rm?"}
    return {"hook_event_name": name, **(of if name == "Notification" else {"tool_name": "Bash"})}


def works() -> dict[str, Any]:
    """A hook that tells that it works on."""
    return {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}


def filled(percent: float) -> dict[str, Any]:
    """A status line that tells the context use."""
    return {"context_window": {"used_percentage": percent, "context_window_size": 200_000}}


def told(database: FleetDatabase) -> list[tuple[str, str]]:
    """Kind and title of the alerts, the oldest first."""
    return [(of.kind, of.title) for of in reversed(alerts.list_newest_alerts(database, 99))]


WAITS = ("needs_you", "developer-con-1 waits for you")
PASSED = ("threshold", "developer-con-1 is past its threshold")


# -- agents ----------------------------------------------------------------------------


def test_a_wait_is_one_alert(database: FleetDatabase, hooks: Hooks) -> None:
    """However many hooks tell of one wait it is one alert; the next wait is another."""
    hooks.tell(asks("PermissionRequest"), asks(), asks())
    once = told(database)
    hooks.tell(works(), asks())

    assert (once, told(database)) == ([WAITS], [WAITS, WAITS])
    assert alerts.list_newest_alerts(database, 1)[0].text == "“May it run rm?”"


def test_a_passed_threshold_is_one_alert(database: FleetDatabase, hooks: Hooks) -> None:
    """It is told when it is passed, and again only once the context was emptied in between."""
    hooks.tell(filled(85), filled(90))
    once = told(database)
    hooks.tell(filled(20), filled(88))

    assert (once, told(database)) == ([PASSED], [PASSED, PASSED])


def test_of_an_anonymous_agent_nothing_is_told(database: FleetDatabase) -> None:
    """An agent without a persona is nobody's task: neither its wait nor its threshold is an alert."""
    hooks = Hooks(database, state="busy")
    hooks.intake.start()
    hooks.tell(asks(), filled(85))
    hooks.intake.close(10)

    assert told(database) == []


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[TmuxPanes]:
    """Panes of a tmux of the test's own."""
    terminal = Terminal(tmp_path)
    yield TmuxPanes(terminal, tmp_path / "locks")
    terminal.end()


def test_a_wait_that_no_hook_told_is_told(
    database: FleetDatabase,
    hooks: Hooks,
    panes: TmuxPanes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the program shows that it waits, that is an alert; the hook that comes late makes no second one."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    with database.write() as connection:
        connection.execute(sa.update(tables.agents).values(process=PID, pane=""))
    (tmp_path / "sessions").mkdir()
    shown = tmp_path / "sessions" / f"{PID}.json"
    shown.write_text(json.dumps({"sessionId": SESSION, "status": "waiting"}))
    signals = AgentSignals(database, panes, ChangeFeed(), lambda _: None)
    for _ in range(2):
        with database.read() as connection:
            row = connection.execute(sa.select(tables.agents)).one()
        signals.check_agents([_agent(row)])
    seen = told(database)
    hooks.tell(asks())

    assert (seen, told(database)) == ([WAITS], [WAITS])


def _agent(row: Any) -> FleetAgent:
    """An agent with the few fields that are looked at."""
    names = (
        "id",
        "harness",
        "state",
        "state_at",
        "cwd",
        "host",
        "started_at",
        "session",
        "process",
    )
    return FleetAgent(**{name: getattr(row, name) for name in names})


def test_a_lost_agent_is_told_with_its_loss(
    database: FleetDatabase, panes: TmuxPanes, tmp_path: Path
) -> None:
    """The alert stands as soon as the agent is lost: a server that is killed right then loses none."""
    records.persona(database)
    lifecycle = AgentLifecycle(database, panes, tmp_path, tmp_path, "h")
    lost = records.agent(database, persona=records.SLUG)
    for id, state in ((lost, "lost"), (lost, "lost"), (records.agent(database), "lost")):
        lifecycle.note_end(id, state, "its pane is gone")
    lifecycle.note_end(records.agent(database, persona=records.SLUG), "ended", "it said goodbye")

    assert told(database) == [("failed", "developer-con-1 is lost")]
    assert alerts.list_newest_alerts(database, 1)[0].agent_id == lost


def test_an_automation_that_stops_is_told_each_time(database: FleetDatabase) -> None:
    """It is told once; after the operator started it again, a new stop of the same agent is a new alert."""
    records.persona(database, automatic=True)
    full = {"persona": records.SLUG, "context_used": 85.0, "over_threshold": True}
    for number in range(2):
        old = records.agent(database, ended_at=1.0, **full)
        records.handoff(database, f"{number:032x}", old, automatic=True, state="done")
    agent, guard = records.agent(database, **full), AutomationGuard(database, 80.0, "h")
    for _ in range(2):
        guard.decide_handoff(agent)
    guard._stop_automation(records.SLUG, agent, "found by another thread at the same moment")
    once = told(database)
    with database.write() as connection:
        connection.execute(sa.update(tables.personas).values(automation_stopped=""))
    guard.decide_handoff(agent)

    stopped = ("needs_you", "Automatic handoffs of developer-con-1 stopped")
    assert (once, told(database)) == ([stopped], [stopped, stopped])


# -- handoffs --------------------------------------------------------------------------


def test_a_missing_acknowledgement_is_told_and_what_the_operator_does_is_not(
    world: World, inbox: Inbox
) -> None:
    """Without the line there is one alert of that kind; a handoff that the operator finishes is none."""
    world.kill()
    world.config(notify=inbox.where)
    world.serve(limits=json.dumps({"acknowledge": 3.0}))
    world.script(prompt=[["say", "Sure, I will."]])
    id = world.hand_off(world.worked(world.started()))
    code = world.failed(id)
    world.api("POST", f"/api/handoffs/{id}/skip")
    retry_until(lambda: inbox.titles)
    retry_until(
        lambda: all(of["state"] == "sent" for of in world.api("GET", "/api/alerts")["alerts"])
    )
    found = world.api("GET", "/api/alerts")["alerts"]

    assert (code, [of["kind"] for of in found]) == ("not_acknowledged", ["unacknowledged"])
    assert inbox.titles == ["tasuki: Handoff of developer-con-1 failed"]


# -- places ----------------------------------------------------------------------------


def test_a_place_that_fails_holds_no_other_up(
    database: FleetDatabase, inbox: Inbox, gone: str
) -> None:
    """One of two took it: it was sent, and the other one is named by its number alone."""
    with database.write() as connection:
        alerts.raise_alert(connection, "failed", "k", "It failed", "So.", host="h")
    notifier = AlertNotifier(database, "h", f"{gone} {inbox.where} {inbox.where}", ALL)
    notifier.start()
    retry_until(lambda: alerts.list_newest_alerts(database, 1)[0].state not in ("due", "sending"))
    notifier.close(5)
    of = alerts.list_newest_alerts(database, 1)[0]

    assert (of.state, inbox.titles) == ("sent", ["tasuki: It failed"])
    assert of.problem == "Address 1 of the setting notify: a notification could not be delivered."
    assert notifier.problem == of.problem


def test_a_channel_that_is_mended_has_no_problem(
    database: FleetDatabase, inbox: Inbox, gone: str
) -> None:
    """What went wrong is shown until a test arrives, or until another address is set."""
    notifier = AlertNotifier(database, "h", gone, ALL)
    failed = (notifier.test(), notifier.problem)
    notifier.configure(inbox.where, ALL)
    changed = notifier.problem
    notifier.problem = failed[1]
    fine = notifier.test()

    assert failed == (
        ["A notification could not be delivered."], "A notification could not be delivered."
    )  # fmt: skip
    assert (changed, fine, notifier.problem, inbox.titles) == ("", [], "", ["tasuki: A test"])


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("desktop", "desktop"),
        ("ntfy://user:key@host/topic", "ntfy://…"),
        ("https://hooks.example.org/services/key", "https://…"),
        ("tgram:123456:key", "…"),
        ("a-key-alone", "…"),
        ("key,ntfy://topic", "…"),
        ("://key", "…"),
    ],
)
def test_of_an_address_only_its_kind_is_shown(place: str, shown: str) -> None:
    """What is no address may be a key that was mistyped: nothing of it is shown."""
    assert notify.list_kinds(place) == [shown]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_mistyped_address_is_shown_nowhere(world: World) -> None:
    """Neither the API nor the command line repeats a word that is no address."""
    world.api("PATCH", "/api/settings", {"notify": "tgram:123456:key"})

    assert world.api("GET", "/api/settings")["notify"] == ["…"]
    assert "123456" not in world.tasuki("config") + world.tasuki("config", "--json")


@pytest.mark.parametrize(
    ("words", "sent"),
    [("all", ALL), ("", ""), ("failed done", "done failed"), ("failed all", ALL), (" failed\tfailed ", "failed")],
)  # fmt: skip
def test_the_kinds_that_are_sent(words: str, sent: str) -> None:
    """`all` is every kind there is; no word is none of them."""
    assert settings.list_alerts(settings.Settings(notify_about=words)) == sent
