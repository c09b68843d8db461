"""The steps of the successor, from its window to its first answer; `workflow.py` has the order."""

import re
import time
from collections.abc import Callable

import sqlalchemy as sa
from msgspec.structs import replace

from tasuki import errors
from tasuki.draft.redact.screen import redact_screen
from tasuki.fleet import prompts
from tasuki.fleet.agents.lifecycle import AgentDied
from tasuki.fleet.delivery.answers import find_question
from tasuki.fleet.delivery.prompt_delivery import has_prompt_with, read_entries
from tasuki.fleet.delivery.typed_input import get_control
from tasuki.fleet.handoff.forks import build_fork_request
from tasuki.fleet.handoff.step_context import WRITTEN_SECONDS, StepContext
from tasuki.fleet.orders.bodies import NewAgent
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import update_row
from tasuki.fleet.store.failures import HandoffStopped, StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.text_safety import clean_for_display, shorten_to_line

_NOT_STARTED = (
    errors.AlreadyUnderWay, errors.HarnessMissing, errors.LaunchFailed, errors.NotPossible, errors.PersonaNotFound, errors.StoreFailed,
)  # fmt: skip
ANSWER_CHARACTERS = 500
"""Characters of an answer that are looked at."""


def create_successor(context: StepContext, handoff: FleetHandoff) -> str:
    """Open a window for an agent of the same persona, and start its program."""
    try:
        # Fail early if the skill file cannot be read.
        context.lifecycle.read_skill(handoff.persona)
        _note_death(context, handoff)
        id = _insert_successor(context, handoff)
        agent = context.lifecycle.complete_start(id)
    except AgentDied as error:
        context.lifecycle.note_end(id, "ended", str(error))
        raise StepFailed("successor_died", str(error)) from error
    except _NOT_STARTED as error:
        raise StepFailed("successor_not_started", str(error)) from error
    return f"agent {agent.id} in pane {agent.pane}"


def await_registration(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until its session has begun, as its hooks report."""

    def has_registered() -> bool:
        return _load_successor(context, handoff).registered_at is not None

    seconds = context.limits.register
    # For some harnesses the turn that reads the skill completes the registration.
    if get_control(_load_successor(context, handoff)).starts_at_prompt:
        seconds += context.limits.skill
    if _wait_for(context, handoff, has_registered, seconds):
        return ""
    agent = _load_successor(context, handoff)
    # Its screen may show a question that nobody has noted yet.
    shown = find_question(context.database, context.delivery.panes, agent, is_waiting=True)
    is_asked = shown or agent.state == "waiting"
    if is_asked and _wait_for(context, handoff, has_registered, context.limits.idle):
        return "once its question was answered"
    raise StepFailed(
        "successor_silent",
        f"Agent {agent.id} did not register within {seconds:.0f} s. "
        f"Its screen shows: {_read_last_words(context, agent)}",
    )


def give_skill(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until it has the skill of its persona; else type it."""
    if not context.lifecycle.read_skill(handoff.persona):
        return "the persona has no skill"

    def has_skill() -> bool:
        agent = _load_successor(context, handoff)
        # A session that began before an answer could reach it gets its skill typed.
        is_late = get_control(agent).skill_at_start and agent.registered_at is not None
        return agent.skill_at is not None or is_late

    if not _wait_for(context, handoff, has_skill, context.limits.skill):
        raise StepFailed("skill_missing", f"Agent {handoff.successor_id} did not get its skill.")
    agent = _load_successor(context, handoff)
    if agent.skill_at is not None:
        return ""
    slug, then = handoff.persona, prompts.render("skill_wait")
    skill = context.lifecycle.read_skill(slug)
    text = prompts.render("skill", persona=slug, skill=skill, then=then)
    context.type_prompt(handoff, agent, "skill", text, context.limits.prompt)

    def has_ended() -> bool:
        intent = context.find_intent(handoff, "skill")
        return bool(intent and intent.ended_at is not None)

    if not _wait_for(context, handoff, has_ended, context.limits.skill):
        raise StepFailed("skill_missing", f"Agent {agent.id} did not finish reading its skill.")
    with context.database.write(synced=False) as connection:
        update_row(connection, tables.agents, agent.id, skill_at=time.time())
        text = f"Agent {agent.id} has read its skill."
        log.note(connection, "skill", text, agent_id=agent.id)
    return "given as a prompt"


def prompt_successor(context: StepContext, handoff: FleetHandoff) -> str:
    """Type to it once, after its skill, where the work continues."""

    def is_ready() -> bool:
        is_idle = _load_successor(context, handoff).state == "idle"
        return is_idle or context.find_intent(handoff, "prompt") is not None

    if not _wait_for(context, handoff, is_ready, context.limits.skill):
        agent = _load_successor(context, handoff)
        raise StepFailed("prompt_refused", f"Agent {agent.id} is {agent.state}, not idle.")
    agent = _load_successor(context, handoff)
    return context.type_prompt(
        handoff, agent, "prompt", handoff.injection_prompt, context.limits.prompt
    )


def await_delivery(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until its own thread holds the prompt."""
    words = prompts.build_acknowledgement(handoff)

    def is_delivered() -> bool:
        return has_prompt_with(_load_successor(context, handoff), words)

    if _wait_for(context, handoff, is_delivered, context.limits.deliver):
        return ""
    agent = _load_successor(context, handoff)
    raise StepFailed(
        "not_delivered", f"The thread of agent {agent.id} does not hold the prompt: {agent.thread}"
    )


def await_acknowledgement(context: StepContext, handoff: FleetHandoff) -> str:
    """Wait until its first answer begins with the requested line."""
    line = prompts.build_acknowledgement(handoff)
    problem = (
        f"Agent {handoff.successor_id} has the prompt, but its answer did not begin with {line!r}"
    )

    def has_acknowledged() -> bool:
        if is_acknowledged(_load_successor(context, handoff), line):
            return True
        turn = context.find_intent(handoff, "prompt")
        if turn and turn.ended_at is not None and time.time() - turn.ended_at > WRITTEN_SECONDS:
            raise StepFailed("not_acknowledged", f"{problem}.")
        return False

    if not _wait_for(context, handoff, has_acknowledged, context.limits.acknowledge):
        minutes = context.limits.acknowledge / 60
        raise StepFailed("not_acknowledged", f"{problem} within {minutes:.0f} minutes.")
    context.update_handoff(handoff, acknowledged_at=context.database.read_clock())
    skill_at = _load_successor(context, handoff).skill_at
    if skill_at is None and context.lifecycle.read_skill(handoff.persona):
        note = "The successor's hook ended before its skill arrived."
        context.update_handoff(handoff, notes=[*handoff.notes, note])
    return ""


def is_acknowledged(agent: FleetAgent, line: str) -> bool:
    """Whether the agent's first words after the prompt that asks for `line` begin with it.

    Marks of Markdown around the line, and its case, do not count.
    """
    was_asked = False
    for entry in read_entries(agent):
        if entry.kind == "user":
            was_asked = was_asked or line in entry.text
        elif was_asked and entry.kind == "assistant" and entry.text.strip():
            return starts_with_line(entry.text, line)
    return False


def starts_with_line(answer: str, line: str) -> bool:
    """Whether an answer begins with the requested line; marks and case do not count."""
    plain = re.sub(r"[*_`#>\s\u200b\ufeff]+", " ", answer[:ANSWER_CHARACTERS]).strip().lower()
    return re.match(rf"{re.escape(line.lower())}(?![\w-])", plain) is not None


def _load_successor(context: StepContext, handoff: FleetHandoff) -> FleetAgent:
    agent = context.load_agent(_get_successor_id(context, handoff))
    if agent.ended_at is not None:
        raise StepFailed(
            "successor_died", f"Agent {agent.id} ended before it took over ({agent.end_reason})."
        )
    return agent


def _note_death(context: StepContext, handoff: FleetHandoff) -> None:
    """Note the end of an earlier attempt's successor, so that a new one is started."""
    if handoff.successor_id is None:
        return
    agent = context.load_agent(handoff.successor_id)
    if agent.ended_at is None and agent.pane:
        try:
            context.delivery.read_screen_state(agent)
        except errors.PaneGone as error:
            context.lifecycle.note_end(agent.id, "lost", str(error))


def _insert_successor(context: StepContext, handoff: FleetHandoff) -> int:
    """Return the id of the successor; insert one where there is none, or it has ended."""
    with context.database.write(synced=False, alone=True) as connection:
        current = queries.load_handoff(connection, handoff.id)
        if (current.state, current.attempt) != ("running", handoff.attempt):
            raise HandoffStopped("The handoff is no longer under way.")
        if current.successor_id is not None:
            last = queries.load_agent(connection, current.successor_id)
            if last.ended_at is None:
                return last.id
        old = queries.load_agent(connection, handoff.agent_id)
        if current.fork:
            request = build_fork_request(connection, current, old)
            id = context.lifecycle.insert_agent(connection, request, forked_from=old.id)
        else:
            request = _build_request(context, connection, current, old)
            id = context.lifecycle.insert_agent(
                connection, request, old.id, beside=old.id if current.move else None
            )
        update_row(connection, tables.handoffs, handoff.id, successor_id=id)
    return id


def _build_request(
    context: StepContext, connection: sa.Connection, handoff: FleetHandoff, old: FleetAgent
) -> NewAgent:
    """Build the order for a successor: as its predecessor, or as the last agent in another harness.

    Models, permissions and arguments mean something to their own harness alone. Those of an agent
    of another host are a wish of that host.
    """
    request = NewAgent(
        handoff.move.folder if handoff.move else old.cwd, persona=handoff.persona,
        harness=handoff.harness or old.harness, goal=handoff.goal or old.goal,
    )  # fmt: skip
    model = queries.find_last_agent(connection, handoff.persona, request.harness)
    if model is None:
        return request
    context.gate.check_permission(model.host, model.permission, model.arguments)
    return replace(
        request, model=model.model, permission=model.permission, arguments=model.arguments
    )


def _get_successor_id(context: StepContext, handoff: FleetHandoff) -> int:
    id = handoff.successor_id  # the handoff is as it was when its step began
    if id is None:
        id = queries.load_handoff(context.database, handoff.id).successor_id
    assert id is not None
    return id


def _wait_for(
    context: StepContext, handoff: FleetHandoff, condition: Callable[[], bool], seconds: float
) -> bool:
    """Wait for a condition that events of both agents may change; return whether it was met."""
    agents = [handoff.agent_id, _get_successor_id(context, handoff)]
    return bool(context.wait_for(handoff, agents, condition, seconds))


def _read_last_words(context: StepContext, agent: FleetAgent) -> str:
    try:
        text = clean_for_display(context.delivery.panes.capture_screen(agent.pane).text)
        lines = [line for line in redact_screen(text).splitlines() if line.strip()]
    except errors.TasukiError as error:
        return str(error)
    return shorten_to_line(" / ".join(lines[-6:]), 400) or "(nothing)"
