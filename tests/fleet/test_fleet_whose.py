"""Whose an event is that says two things: one agent's token, another's session; a pane of another tmux."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pane_programs import own_server
from test_fleet_intake import OTHER, SESSION, SLUG, TOKEN, Hooks, hooks

from tasuki.fleet.hooks.correlator import HookPost, hash_token, is_same_socket
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.launch.processes import find_start_time
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.launch.tmux.server import Tmux

__all__ = ["hooks"]
OURS = "/tmp/tmux-0/ours"
THEIRS = "another token, of an agent with the session"
KEY = "sk-ant-api03-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lz" * 3
"""What looks like a key."""


def two(hooks: Hooks) -> tuple[int, int]:
    """Two agents that were started, each with a token and a session of its own."""
    first = hooks.agent(session=SESSION)
    return first, hooks.agent(session=OTHER, token_hash=hash_token(THEIRS), pane="%6")


# -- tokens and sessions ---------------------------------------------------------------


@pytest.mark.parametrize("token", [TOKEN, "of another fleet"])
def test_another_agents_session_is_not_taken_with_a_token(hooks: Hooks, token: str) -> None:
    """A session that is resumed inside of another agent: what it tells is not told of the first."""
    _, second = two(hooks)
    hooks.say("SessionStart", OTHER, source="resume", _token=token, _pid=os.getppid())
    hooks.say("UserPromptSubmit", OTHER, prompt="mine", _token=token)
    hooks.say("SessionEnd", OTHER, reason="other", _token=token)
    agent = queries.load_agent(hooks.database, second)
    (anonymous,) = [a for a in hooks.agents() if a.id > second]

    assert (agent.state, agent.ended_at, agent.registered_at) == ("starting", None, None)
    assert (anonymous.session, anonymous.end_reason) == (OTHER, "other")


def test_the_end_of_another_session_ends_nobody(hooks: Hooks) -> None:
    """An end with the token of one agent and the session of another is nobody's."""
    two(hooks)
    hooks.say("SessionEnd", OTHER, reason="other", _token=TOKEN)

    assert [a.ended_at for a in hooks.agents()] == [None, None]


def test_an_agent_that_goes_on_to_anothers_session_stays_itself(hooks: Hooks) -> None:
    """`/resume` in the agent's own process, to the session of another one that is alive."""
    first, second = two(hooks)
    hooks.say("SessionStart", source="startup", _token=TOKEN)
    hooks.say("SessionStart", OTHER, source="resume", _token=TOKEN)
    hooks.say("UserPromptSubmit", OTHER, prompt="go on", _token=THEIRS)
    sessions = [(a.id, a.session, a.state) for a in hooks.agents()]

    assert sorted(sessions) == [(first, OTHER, "idle"), (second, OTHER, "busy")]


@pytest.mark.parametrize("which", ["its own", "none", "of an agent without one"])
def test_a_session_is_enough(hooks: Hooks, which: str) -> None:
    """With its own token; without any; and where the agent has none, as one that was adopted."""
    has = {"token_hash": ""} if which == "of an agent without one" else {}
    id = hooks.agent(session=SESSION, **has)
    hooks.say("UserPromptSubmit", prompt="go on", _token="" if which == "none" else TOKEN)
    (agent,) = hooks.agents()

    assert (agent.id, agent.state) == (id, "busy")


@pytest.mark.parametrize(("token", "agents"), [(THEIRS, 2), (TOKEN, 1), ("", 1)])
def test_what_is_told_behind_an_end(hooks: Hooks, token: str, agents: int) -> None:
    """A late word is that of the agent that ended, unless another one's token came with it."""
    hooks.agent(session=SESSION, state="ended", ended_at=time.time())
    hooks.say("Stop", _token=token)

    assert len(hooks.agents()) == agents


# -- panes of another tmux -------------------------------------------------------------


@pytest.fixture
def of_ours(database: FleetDatabase) -> Iterator[Hooks]:
    """Hooks of a fleet whose tmux has a socket of its own."""
    made = Hooks(database)
    made.intake.close(10)
    made.intake = EventIntake(
        database, ChangeFeed(), "h", read_skill=str, threshold=80.0, on_commit=lambda *_: None,
        socket=lambda: OURS,
    )  # fmt: skip
    made.intake.start()
    yield made
    made.intake.close(10)


@pytest.mark.parametrize(
    ("socket", "pane"), [(OURS, "%9"), ("", "%9"), ("/tmp/tmux-0/other", ""), ("nonsense", "")]
)
def test_a_pane_counts_in_our_tmux_alone(of_ours: Hooks, socket: str, pane: str) -> None:
    """The same number in another tmux server is another pane; what says nothing is believed."""
    of_ours.say("SessionStart", source="startup", _pane="%9", _socket=socket)
    (agent,) = of_ours.agents()

    assert agent.pane == pane


@pytest.mark.parametrize(("socket", "found"), [(OURS, True), ("/tmp/tmux-0/other", False)])
def test_an_adopted_agent_is_in_our_tmux(of_ours: Hooks, socket: str, found: bool) -> None:
    """Its number in another tmux is another's."""
    id = of_ours.agent(token_hash="", adopted=True, state="idle")
    of_ours.say("UserPromptSubmit", prompt="go on", _pane="%5", _socket=socket)

    assert (queries.load_agent(of_ours.database, id).session == SESSION) is found


def test_a_socket_may_be_named_by_a_link(tmp_path: Path) -> None:
    """/tmp is one to /private/tmp on macOS; the script leaves odd characters out."""
    real = tmp_path / "a folder"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    clean = str(real / "s").replace(" ", "")

    assert is_same_socket(str(tmp_path / "link" / "s"), str(real / "s"))
    assert is_same_socket(str(real / "s"), str(tmp_path / "link" / "s"))
    assert is_same_socket(clean, str(real / "s"))
    assert not is_same_socket(str(real / "s"), str(real / "t"))
    assert not is_same_socket("", "")


def test_tmux_tells_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs in its panes have; nothing of one that does not run."""
    with own_server(tmp_path, monkeypatch) as terminal:
        terminal.run(("new-session", "-d", "-s", "x", "sh"))
        panes, away = TmuxPanes(terminal, tmp_path), TmuxPanes(Tmux("not-there"), tmp_path)
        told = panes.find_socket_path()
        pane_has = terminal.run(("display-message", "-p", "-t", "x", "#{socket_path}"))

        assert (told, away.find_socket_path()) == (pane_has.strip(), "")
    assert panes.find_socket_path() == told


# -- what is told of it ----------------------------------------------------------------


def test_no_secret_gets_into_the_log(database: FleetDatabase) -> None:
    """Neither by the words nor by the data of a line; an agent's are redacted likewise."""
    with database.write() as connection:
        log.note(connection, "leftover", f"It says: {KEY}", data={"of": [KEY], "state": "busy"})
        told = connection.execute(sa.select(tables.events.c.text, tables.events.c.data)).one()

    assert KEY not in str(tuple(told))
    assert (told.text.startswith("It says: [REDACTED:"), told.data["state"]) == (True, "busy")


def test_a_session_that_is_resumed_elsewhere_is_not_the_agent(hooks: Hooks) -> None:
    """`claude --resume` of an agent's session in a terminal of the operator's: its end is not the agent's."""
    with subprocess.Popen(["sleep", "60"]) as program:
        try:
            id = hooks.agent(
                session=SESSION,
                state="idle",
                process=program.pid,
                process_began=find_start_time(program.pid),
            )
            hooks.say("SessionStart", SESSION, source="resume", _pid=os.getpid())
            hooks.say("SessionEnd", SESSION, reason="prompt_input_exit", _pid=os.getpid())
        finally:
            program.kill()

    assert queries.load_agent(hooks.database, id).ended_at is None


def test_a_hook_below_the_agents_program_needs_no_token(hooks: Hooks) -> None:
    """A harness that gives its hooks another environment, and runs them by a program of its own."""
    id = hooks.agent(
        session=SESSION,
        state="idle",
        process=os.getppid(),
        process_began=find_start_time(os.getppid()),
    )
    hooks.say("SessionEnd", SESSION, reason="prompt_input_exit", _pid=os.getpid())

    assert queries.load_agent(hooks.database, id).end_reason == "prompt_input_exit"


def test_an_end_is_believed_once_the_program_is_gone(hooks: Hooks) -> None:
    """A wrong or forged end frees no persona; the next thing that the agent reports takes it back."""
    with subprocess.Popen(["sleep", "60"]) as program:
        try:
            id = hooks.agent(
                session=SESSION, state="idle", process=program.pid,
                process_began=find_start_time(program.pid),
            )  # fmt: skip
            hooks.say("SessionEnd", SESSION, reason="other", _token=TOKEN)
            told = queries.load_agent(hooks.database, id)
            hooks.say("UserPromptSubmit", SESSION, prompt="go on", _token=TOKEN)
            goes_on = queries.load_agent(hooks.database, id)
        finally:
            program.kill()
    hooks.say("SessionEnd", SESSION, reason="other", _token=TOKEN)

    assert (told.state, told.ended_at, told.end_reason) == ("idle", None, "other")
    assert (goes_on.state, goes_on.end_reason) == ("busy", "")
    assert queries.load_agent(hooks.database, id).state == "ended"


@pytest.mark.parametrize("used", ["NaN", "1e999", "-5", '"80"', "true"])
def test_a_context_use_that_is_none(hooks: Hooks, used: str) -> None:
    """NaN and the like pass no threshold."""
    hooks.persona()
    hooks.agent(session=SESSION, persona=SLUG)
    window = f'{{"used_percentage":{used},"context_window_size":{used}}}'
    body = f'{{"hook_event_name":"Status","session_id":"{SESSION}","cwd":"/","context_window":{window}}}'
    hooks.post(HookPost("claude", body.encode(), token=TOKEN, event_id="x"))

    assert [line.text for line in hooks.log("threshold")] == []


@pytest.mark.parametrize("text", ["a\\u0000b", "\\ud800", "\\ud83d\\ude42", "\ud800", "9" * 5000])
def test_odd_letters_lose_no_event(hooks: Hooks, text: str) -> None:
    """NUL and lone surrogates in a session's id, a path, a prompt: the event counts."""
    hooks.agent(session=SESSION, state="idle")
    given = f'"session_id":"{SESSION}","cwd":"/","transcript_path":"/x{text}","prompt":"go {text}"'
    body = f'{{"hook_event_name":"UserPromptSubmit",{given}}}'
    raw = body.encode("utf-8", "surrogatepass")
    hooks.post(HookPost("claude", raw, token=TOKEN, event_id="x"))

    assert [line.kind for line in hooks.log("prompt")] == ["prompt"]
