"""Events of hooks taken in: whose they are, what they change, what is answered, what is dropped."""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tasuki.fleet.delivery import outbox
from tasuki.fleet.hooks.correlator import HookPost, hash_token
from tasuki.fleet.hooks.intake import EventIntake
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed

SESSION = "5e55104d-0000-4000-8000-000000000001"
OTHER = "0773a000-0000-4000-8000-000000000002"
TOKEN = "token-of-the-agent"
SLUG = "developer-con-1"


class Hooks:
    """An intake that is running, and the hooks of Claude Code that it hears."""

    def __init__(self, database: FleetDatabase) -> None:
        self.database = database
        self.after: list[int] = []
        self.intake = EventIntake(
            database, ChangeFeed(), "h", read_skill=lambda slug: f"You are {slug}.", threshold=80.0,
            on_commit=lambda touched, idle, limited: self.after.extend(idle),
        )  # fmt: skip
        self.intake.start()
        self.number = 0

    def say(self, name: str, session: str = SESSION, *, at: float = 0.0, **given: Any) -> str:
        """One hook tells something; what it prints. `_event_id`, `_token` and the like are the post's."""
        self.number += 1
        post = {"event_id": f"event-{self.number}", "token": "", "pid": os.getpid(), "at": at}
        post |= {key[1:]: value for key, value in given.items() if key.startswith("_")}
        payload = {key: value for key, value in given.items() if not key.startswith("_")}
        body = {"hook_event_name": name, "session_id": session, "cwd": "/", **payload}
        return self.post(HookPost("claude", json.dumps(body).encode(), **post))

    def post(self, post: HookPost) -> str:
        """One post; what the hook prints."""
        done, said = threading.Event(), []
        self.intake.put(post, lambda answer: (said.append(answer), done.set()))  # type: ignore[func-returns-value]
        assert done.wait(20)
        return said[0]

    def persona(self, **values: Any) -> None:
        """A persona is there."""
        row = {"slug": SLUG, "role": "developer", "name": "con", "number": 1, "folder": "/",
               "created_at": 1.0, **values}  # fmt: skip
        with self.database.write() as connection:
            connection.execute(sa.insert(tables.personas).values(**row))

    def agent(self, **values: Any) -> int:
        """An agent that was started, and has not registered; its id."""
        row = {"harness": "claude", "state": "starting", "state_at": 1.0, "cwd": "/", "host": "h",
               "started_at": 1.0, "token_hash": hash_token(TOKEN), "pane": "%5", **values}  # fmt: skip
        with self.database.write() as connection:
            query = sa.insert(tables.agents).values(**row).returning(tables.agents.c.id)
            return int(connection.execute(query).scalar_one())

    def agents(self) -> list[Any]:
        """All agents that are known."""
        return queries.list_agents(self.database)

    def log(self, kind: str = "") -> list[Any]:
        """The lines of the log, of one kind or all."""
        lines = queries.list_events_after(self.database, 0, limit=1000)
        return [line for line in lines if not kind or line.kind == kind]


@pytest.fixture
def hooks(database: FleetDatabase) -> Iterator[Hooks]:
    """Hooks that are heard, on SQLite and on PostgreSQL."""
    made = Hooks(database)
    yield made
    made.intake.close(10)


# -- whose it is -----------------------------------------------------------------------


def test_a_token_binds_the_first_session(hooks: Hooks) -> None:
    """The first session that is seen with an agent's token is the agent's; it has registered then."""
    id = hooks.agent()
    hooks.say("SessionStart", source="startup", _token=TOKEN)
    agent = queries.load_agent(hooks.database, id)

    assert (agent.session, agent.state, agent.registered_at is not None) == (SESSION, "idle", True)


def test_a_nested_agent_is_another_one(hooks: Hooks) -> None:
    """An agent within an agent inherits the token; its session is its own, and it appears as anonymous."""
    id = hooks.agent(session=SESSION)
    hooks.say("SessionStart", OTHER, source="startup", _token=TOKEN)
    hooks.say("Stop", OTHER, _token=TOKEN)
    sessions = {a.id: a.session for a in hooks.agents()}

    assert sessions.pop(id) == SESSION
    assert list(sessions.values()) == [OTHER]


def test_a_nested_agent_that_resumes_is_another_one(hooks: Hooks) -> None:
    """`claude -p --resume` within an agent says `resume` and has the token; its process is another."""
    id = hooks.agent()
    hooks.say("SessionStart", source="startup", _token=TOKEN)
    with_process = queries.load_agent(hooks.database, id).process
    hooks.say("SessionStart", OTHER, source="resume", _token=TOKEN, _pid=os.getppid())

    assert with_process == os.getpid()
    assert queries.load_agent(hooks.database, id).session == SESSION


def test_clear_in_the_same_process_is_the_same_agent(hooks: Hooks) -> None:
    """`/clear` begins a session in the same process: the agent goes on with it."""
    id = hooks.agent()
    hooks.say("SessionStart", source="startup", _token=TOKEN)
    hooks.say("SessionEnd", reason="clear", _token=TOKEN)
    hooks.say("SessionStart", OTHER, source="clear", _token=TOKEN)
    agent = queries.load_agent(hooks.database, id)

    assert (agent.session, agent.ended_at, len(hooks.agents())) == (OTHER, None, 1)


def test_without_a_token_the_session_tells(hooks: Hooks) -> None:
    """An event without a token finds its agent by the session's id."""
    id = hooks.agent(session=SESSION, token_hash="")
    hooks.say("UserPromptSubmit", prompt="go on")

    assert queries.load_agent(hooks.database, id).state == "busy"


def test_an_adopted_agent_is_found_by_its_pane(hooks: Hooks) -> None:
    """Of an adopted agent no session is known: the first one in its pane is its own."""
    id = hooks.agent(session="", token_hash="", adopted=True)
    hooks.say("UserPromptSubmit", prompt="go on", _pane="%5")

    assert queries.load_agent(hooks.database, id).session == SESSION


def test_a_pane_alone_is_no_proof(hooks: Hooks) -> None:
    """An agent with a session of its own is not found by its pane."""
    id = hooks.agent(session=SESSION, token_hash="")
    hooks.say("UserPromptSubmit", OTHER, prompt="go on", _pane="%5")

    assert queries.load_agent(hooks.database, id).state == "starting"


def test_d8_an_unknown_session_is_an_anonymous_agent(hooks: Hooks) -> None:
    """D8, NFR4: who is not known appears as an agent without a persona, never as an error."""
    hooks.say("SessionStart", source="startup", _pane="%9")
    (agent,) = hooks.agents()

    assert (agent.persona, agent.session, agent.pane, agent.state) == (None, SESSION, "%9", "idle")


def test_the_end_of_an_unknown_session_makes_no_agent(hooks: Hooks) -> None:
    """Who is first heard of when it ends is not worth a row."""
    hooks.say("SessionEnd", reason="other")

    assert hooks.agents() == []


def test_an_agent_that_ended_is_not_revived(hooks: Hooks) -> None:
    """A session that is resumed after its agent ended is a new, anonymous agent."""
    id = hooks.agent(session=SESSION)
    hooks.say("SessionEnd", reason="prompt_input_exit", _token=TOKEN)
    hooks.say("SessionStart", source="resume", _token=TOKEN)
    new, old = hooks.agents()

    assert (old.id, old.state, new.state) == (id, "ended", "idle")


@pytest.mark.parametrize("name", ["Stop", "Notification", "SubagentStop"])
def test_what_is_told_behind_an_agents_end_makes_no_ghost(hooks: Hooks, name: str) -> None:
    """A stop that comes late, when its agent has ended, belongs to that agent and changes nothing."""
    hooks.agent(session=SESSION)
    hooks.say("SessionEnd", reason="prompt_input_exit", _token=TOKEN)
    hooks.say(name, agent_id="a" if name == "SubagentStop" else "", _token=TOKEN)

    assert [agent.state for agent in hooks.agents()] == ["ended"]


# -- once ------------------------------------------------------------------------------


def test_an_event_that_was_seen_is_dropped(hooks: Hooks) -> None:
    """The same event, told again from the spool, changes nothing and stands once in the log."""
    hooks.agent(session=SESSION)
    hooks.say("UserPromptSubmit", prompt="one", _event_id="same")
    hooks.say("Stop", last_assistant_message="done")
    hooks.say("UserPromptSubmit", prompt="one", _event_id="same", _spooled=True, at=time.time())

    assert (hooks.agents()[0].state, len(hooks.log("prompt"))) == ("idle", 1)


def test_a_stale_event_from_the_spool_changes_no_state(hooks: Hooks) -> None:
    """What was kept while the server was away and is older than the state changes nothing."""
    hooks.agent(session=SESSION)
    hooks.say("UserPromptSubmit", prompt="one")
    hooks.say("Stop", _spooled=True, at=time.time() - 3600)

    assert hooks.agents()[0].state == "busy"


def test_one_that_cannot_be_understood_harms_no_other(hooks: Hooks) -> None:
    """A payload that is no JSON, no object, or of nobody, is answered with nothing."""
    hooks.agent(session=SESSION)
    answers = [hooks.post(HookPost("claude", body)) for body in (b"", b"[1]", b"{", b'{"a":1}', b"\xff\xfe")]  # fmt: skip
    hooks.say("UserPromptSubmit", prompt="go on")

    assert (answers, hooks.agents()[0].state) == ([""] * 5, "busy")


# -- the skill -------------------------------------------------------------------------


def test_the_skill_is_the_answer_to_the_session_start(hooks: Hooks) -> None:
    """After registration the persona's skill is given to the agent, and that is recorded."""
    hooks.persona()
    id = hooks.agent(persona=SLUG)
    said = hooks.say("SessionStart", source="startup", _token=TOKEN)

    assert f"You are {SLUG}." in said
    assert queries.load_agent(hooks.database, id).skill_at is not None


def test_a_start_that_was_spooled_got_no_skill(hooks: Hooks) -> None:
    """An answer that did not arrive is no injection: the skill must be given in another way."""
    hooks.persona()
    id = hooks.agent(persona=SLUG)
    hooks.say("SessionStart", source="startup", _token=TOKEN, _event_id="start")
    hooks.say("SessionStart", source="startup", _token=TOKEN, _event_id="start", _spooled=True)

    assert queries.load_agent(hooks.database, id).skill_at is None


def test_a_start_whose_commit_was_not_heard_of_got_no_skill(hooks: Hooks) -> None:
    """The connection broke behind the commit: it is taken in once more, without an answer."""
    hooks.persona()
    id = hooks.agent(persona=SLUG)
    for _ in range(2):
        said = hooks.say("SessionStart", source="startup", _token=TOKEN, _event_id="start")

    assert (said, queries.load_agent(hooks.database, id).skill_at) == ("", None)


@pytest.mark.parametrize("length", [12_000, 500_000])
def test_an_endless_session_stops_nothing(hooks: Hooks, length: int) -> None:
    """PostgreSQL's index takes no such word; nobody's session is called so."""
    hooks.say("SessionStart", "".join(secrets.choice("abcdefgh0123") for _ in range(length)))
    hooks.say("SessionStart", source="startup")

    assert [agent.session for agent in hooks.agents()] == [SESSION]


def test_an_anonymous_agent_is_told_nothing(hooks: Hooks) -> None:
    """D8: hooks of agents without a persona get no answer."""
    assert hooks.say("SessionStart", source="startup") == ""


# -- what was typed --------------------------------------------------------------------


def intent(hooks: Hooks, id: int, key: str = "one", proof: str = "handoff ab12/1") -> None:
    """A text is about to be typed to an agent."""
    with hooks.database.write() as connection:
        agent = queries.load_agent(connection, id)
        outbox.record_intent(connection, key, agent=agent, kind="instruction", proof=proof)


def stands(hooks: Hooks, key: str = "one") -> tuple[str, bool]:
    """The state of what was typed, and whether its turn has ended."""
    with hooks.database.read() as connection:
        found = outbox.load_intent(connection, key)
    assert found
    return found.state, found.ended_at is not None


def test_fr7_the_stop_of_that_turn_counts(hooks: Hooks) -> None:
    """FR7: the turn whose prompt carried the words, and its stop, are what is waited for."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    hooks.say("UserPromptSubmit", prompt="please\n(tasuki handoff ab12/1)", prompt_id="p1")
    begun = stands(hooks)
    hooks.say("Stop", prompt_id="p1", last_assistant_message="written")

    assert (begun, stands(hooks)) == (("proven", False), ("proven", True))


@pytest.mark.parametrize(
    "which", ["before", "other turn", "nested", "child", "replayed", "queued behind another"]
)
def test_fr7_other_stops_do_not_count(hooks: Hooks, which: str) -> None:
    """FR7: late, nested, replayed and other stops are no end of that turn."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    if which == "before":
        hooks.say("Stop", last_assistant_message="of an earlier turn")
    if which == "queued behind another":
        hooks.say("UserPromptSubmit", prompt="the operator was faster", prompt_id="p1")
    hooks.say("UserPromptSubmit", prompt="(tasuki handoff ab12/1)", prompt_id="p1")
    if which == "other turn":
        hooks.say("Stop", prompt_id="p0")
    if which == "nested":
        hooks.say("Stop", OTHER, _token=TOKEN)
    if which == "child":
        hooks.say("SubagentStop", agent_id="a1", agent_type="Explore")
    if which == "replayed":
        hooks.say("Stop", _spooled=True, at=time.time() - 60)
    if which == "queued behind another":
        hooks.say("Stop", prompt_id="p1")

    assert stands(hooks) == ("proven", False)


def test_fr7_an_agent_that_showed_itself_busy_was_not_at_work(hooks: Hooks) -> None:
    """Claude Code shows that it is busy before its hook tells the prompt: no other turn runs then."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    hooks.say("UserPromptSubmit", prompt="the turn before", prompt_id="p0")
    hooks.say("Stop", prompt_id="p0")
    with hooks.database.write() as connection:
        connection.execute(sa.update(tables.agents).values(state="busy", state_at=time.time()))
    hooks.say("UserPromptSubmit", prompt="(tasuki handoff ab12/1)", prompt_id="p1")
    hooks.say("Stop", prompt_id="p1", last_assistant_message="written")

    assert stands(hooks) == ("proven", True)


def test_fr7_a_queued_turn_ends_behind_the_one_before(hooks: Hooks) -> None:
    """A prompt that was queued behind the user's own is ended by the second stop, whose id is new."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    hooks.say("UserPromptSubmit", prompt="the operator was faster", prompt_id="p1")
    hooks.say("UserPromptSubmit", prompt="(tasuki handoff ab12/1)", prompt_id="p1")
    hooks.say("Stop", prompt_id="p1")
    hooks.say("Stop", prompt_id="p2")

    assert stands(hooks) == ("proven", True)


def test_fr7_a_prompt_that_is_told_behind_its_own_end(hooks: Hooks) -> None:
    """A server that starts between a prompt and its stop hears the stop first: the turn has ended all the same."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    began = time.time()
    hooks.say("Stop", prompt_id="p0")
    hooks.say("Stop", prompt_id="p1", last_assistant_message="written")
    hooks.say("UserPromptSubmit", prompt="(tasuki handoff ab12/1)", prompt_id="p1",
              _spooled=True, at=began)  # fmt: skip

    assert (stands(hooks), hooks.agents()[0].state) == (("proven", True), "idle")


def test_fr7_an_end_before_a_spooled_prompt_is_not_its_own(hooks: Hooks) -> None:
    """A stop that happened before the prompt was typed is none of its turn's."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    hooks.say("Stop")
    hooks.say("UserPromptSubmit", prompt="(tasuki handoff ab12/1)", _spooled=True, at=time.time())

    assert stands(hooks) == ("proven", False)


def test_a_prompt_with_other_words_proves_nothing(hooks: Hooks) -> None:
    """Words of the user in between are no proof of what was typed."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id)
    hooks.say("UserPromptSubmit", prompt="something else")
    hooks.say("Stop")

    assert stands(hooks) == ("intended", False)


# -- the context -----------------------------------------------------------------------


def status(hooks: Hooks, used: float) -> None:
    """The status line is drawn."""
    body = {"session_id": SESSION, "context_window": {"used_percentage": used, "context_window_size": 200000}}  # fmt: skip
    hooks.number += 1
    hooks.post(HookPost("claude", json.dumps(body).encode(), event_id=f"status-{hooks.number}"))


def test_the_threshold_raises_one_event(hooks: Hooks) -> None:
    """Passing the threshold is told once, and again only after the use had fallen."""
    hooks.agent(session=SESSION)
    for used in (79.0, 81.0, 90.0, 40.0, 85.0):
        status(hooks, used)

    assert [line.text for line in hooks.log("threshold")] == [
        "Its context is 81 % full (threshold 80 %).",
        "Its context is 85 % full (threshold 80 %).",
    ]


def test_a_persona_has_its_own_threshold(hooks: Hooks) -> None:
    """The threshold of the persona stands for that of the settings."""
    hooks.persona(threshold=50.0)
    hooks.agent(session=SESSION, persona=SLUG)
    status(hooks, 60.0)

    assert len(hooks.log("threshold")) == 1


@pytest.mark.parametrize(
    ("automatic", "used", "trigger", "vetoed"),
    [(True, 85.0, "auto", True), (False, 85.0, "auto", False), (True, 60.0, "auto", False),
     (True, 85.0, "manual", False)],
)  # fmt: skip
def test_d10_a_compaction_is_vetoed_only_where_a_handoff_is_about_to_be(
    hooks: Hooks, automatic: bool, used: float, trigger: str, vetoed: bool
) -> None:
    """D10: with automatic handoffs, over the threshold, and never `/compact`."""
    hooks.persona(automatic=automatic)
    hooks.agent(session=SESSION, persona=SLUG)
    status(hooks, used)
    said = hooks.say("PreCompact", trigger=trigger)

    assert ('"block"' in said) == vetoed


def test_d10_it_is_vetoed_once(hooks: Hooks) -> None:
    """D10: the second compaction of an agent goes through."""
    hooks.persona(automatic=True)
    hooks.agent(session=SESSION, persona=SLUG)
    status(hooks, 85.0)
    answers = [hooks.say("PreCompact", trigger="auto") for _ in range(2)]

    assert ['"block"' in said for said in answers] == [True, False]


def test_d10_a_failed_handoff_releases_the_veto(hooks: Hooks) -> None:
    """D10: where the handoff failed, the compaction goes through."""
    hooks.persona(automatic=True)
    id = hooks.agent(session=SESSION, persona=SLUG)
    status(hooks, 85.0)
    with hooks.database.write() as connection:
        row = {"id": "f" * 32, "agent_id": id, "persona": SLUG, "reason": "r", "state": "failed",
               "step": "check", "created_at": 1.0, "host": "h", "queue": "q"}  # fmt: skip
        connection.execute(sa.insert(tables.handoffs).values(**row))

    assert hooks.say("PreCompact", trigger="auto") == ""


def test_an_exit_is_not_proven_by_any_prompt(hooks: Hooks) -> None:
    """What has no words of its own is not taken for what the user typed."""
    id = hooks.agent(session=SESSION)
    intent(hooks, id, proof="")
    hooks.say("UserPromptSubmit", prompt="anything")

    assert stands(hooks) == ("intended", False)


def test_many_events_at_once_are_all_taken_in(hooks: Hooks, tmp_path: Path) -> None:
    """Events of forty agents at once go into few commits, and none is lost."""
    done = threading.Semaphore(0)
    for number in range(400):
        body = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": f"s-{number % 40}",
            "prompt": "x",
        }
        post = HookPost("claude", json.dumps(body).encode(), event_id=f"e{number}")
        hooks.intake.put(post, lambda said: done.release())
    for _ in range(400):
        assert done.acquire(timeout=20)

    assert (len(hooks.agents()), len(hooks.log("prompt"))) == (40, 400)
