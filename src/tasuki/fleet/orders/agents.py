"""Orders for agents: start, adopt, talk to, look at, mute, end."""

import os
from typing import Any

from msgspec.structs import replace

from tasuki.errors import AlreadyUnderWay, NotPossible, ServerEnds
from tasuki.fleet import alerts
from tasuki.fleet.agents import agent_ends, lifecycle, limits
from tasuki.fleet.agents.personas import check_available
from tasuki.fleet.alerts import MuteChange
from tasuki.fleet.changes import work
from tasuki.fleet.changes.pull_requests import PullRequest
from tasuki.fleet.changes.records import Since, WorkChanges
from tasuki.fleet.changes.work import find_document_time
from tasuki.fleet.delivery import answers, messages, terminals
from tasuki.fleet.delivery.messages import TypedKeys
from tasuki.fleet.delivery.terminals import KnownTerminal
from tasuki.fleet.exchange.host_list import find_host, read_labels
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.handoff import commands
from tasuki.fleet.orders import bodies
from tasuki.fleet.orders.order import order
from tasuki.fleet.parts import FleetParts
from tasuki.fleet.store import queries
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness import registry as harnesses
from tasuki.text_safety import clean_text

LOOK_SECONDS = 8.0
"""How long another host may take to answer what is only looked at."""
ANSWER_SECONDS = 20.0
"""How long it may take to answer an agent's question: it waits until that is taken."""
CHANGES_SECONDS = 15.0
"""How long it may take to say what an agent changed: git has a limit of its own."""


def find_agent_host(fleet: FleetParts, id: int, **_: Any) -> str:
    """Find the host of an agent. Raises AgentNotFound."""
    return queries.load_agent(fleet.database, id).host


def find_wanted_host(fleet: FleetParts, data: bodies.Adoption | bodies.NewAgent, **_: Any) -> str:
    """Find the host that is named; another one is given the files of the persona.

    Raises HostNotFound; NotPossible where an agent would start there without a folder.
    """
    host = find_host(fleet.database, data.host).id if data.host else fleet.host
    if isinstance(data, bodies.NewAgent) and host != fleet.host:
        if not data.cwd:
            raise NotPossible("An agent on another host needs a folder there. Name one: --cwd")
        if data.persona:
            share_persona(fleet.database, fleet.root, data.persona)
    return host


@order("start", find_wanted_host, at="/agents")
def start_agent(fleet: FleetParts, data: bodies.NewAgent, order_id: str = "") -> FleetAgent:
    """Start an agent in a tmux window, on any host; answers once its program runs.

    Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed,
    HostNotFound, HostAway.
    """
    wanted = replace(data, cwd=data.cwd or os.getcwd(), goal=clean_text(data.goal))
    harness = wanted.harness or harnesses.DEFAULT
    if slug := wanted.persona:
        with fleet.database.read() as connection:
            known = queries.find_ordered_agent(connection, order_id) if order_id else None
            check_available(connection, slug, except_agent=known)
        share_persona(fleet.database, fleet.root, slug)
        fleet.lifecycle.read_skill(slug)  # fails early where it cannot be read
        harness = wanted.harness or queries.load_persona(fleet.database, slug).harness
    lifecycle.check_folder(wanted.cwd)
    lifecycle.check_hooks(fleet.data, harness, wanted.cwd)
    agent = fleet.lifecycle.create_agent(wanted, order_id)
    fleet.changes.notify([agent.id])
    return agent


@order("start", find_wanted_host, at="/agents/adopt")
def adopt_agent(
    fleet: FleetParts, data: bodies.Adoption, brief: str = "", goal: str = ""
) -> FleetAgent:
    """Adopt an agent that is already running in a pane.

    `brief` is the id of a stored handoff with which it was started, `goal` its goal. Raises
    NotPossible, HostNotFound, HostAway.
    """
    if data.persona:
        share_persona(fleet.database, fleet.root, data.persona)
    agent = lifecycle.adopt_agent(fleet.database, fleet.panes, fleet.host, data, brief, goal)
    fleet.changes.notify([agent.id])
    return agent


@order("send", find_agent_host, at="/agents/{id:int}/send")
def send_text(
    fleet: FleetParts, id: int, data: bodies.AgentMessage, key: str = "", order_id: str = ""
) -> dict[str, Any]:
    """Type a text to an agent as a prompt; return whether its turn began.

    The answer is `proven`, `uncertain` or `refused`. Sent again with the same
    `Idempotency-Key`, it is not typed again; the answer is what is known then. Raises
    AgentNotFound, NotPossible, HostAway.
    """
    return messages.send_message(fleet.database, fleet.delivery, id, data.text, key or order_id)


@order("send", find_agent_host, at="/agents/{id:int}/resume")
def resume_agent(
    fleet: FleetParts, id: int, data: bodies.Resumption, key: str = "", order_id: str = ""
) -> dict[str, Any]:
    """Tell an agent to go on once its usage limit has reset; the answer is that of `send`.

    400 before that time, and where it is not known, unless `force` is given.
    """
    limits.check_resumable(queries.load_agent(fleet.database, id), force=data.force)
    return messages.send_message(fleet.database, fleet.delivery, id, limits.GO_ON, key or order_id)


@order("keys", find_agent_host, at="/agents/{id:int}/keys", seconds=LOOK_SECONDS)
def press_key(fleet: FleetParts, id: int, data: bodies.KeyPress) -> FleetAgent:
    """Press one key in an agent's pane, such as a dialog asks for: `Enter`, `Escape`, `y`, `1`.

    Raises AgentNotFound, NotPossible, HostAway.
    """
    messages.press_key(fleet.database, fleet.delivery, id, data.key)
    fleet.changes.notify([id])
    return queries.load_agent(fleet.database, id)


@order("keys", find_agent_host, at="/agents/{id:int}/answer", seconds=ANSWER_SECONDS)
def answer_agent(fleet: FleetParts, id: int, data: bodies.QuestionAnswer) -> dict[str, Any]:
    """Answer the `question` of a waiting agent: by the key of a choice, or by a text.

    Where it `takes_several`, `choices` are the keys of all that are chosen.
    `mark` says which question is meant: 400, and nothing is typed, where the agent asks another
    one by now, or its screen does not show it. The answer is `proven` or `uncertain`.
    """
    try:
        return answers.answer_question(fleet.database, fleet.delivery, id, data)
    finally:
        fleet.changes.notify([id])


@order("keys", find_agent_host, seconds=LOOK_SECONDS)
def type_keys(fleet: FleetParts, id: int, keys: TypedKeys) -> None:
    """Type keys, texts and pastes into an agent's pane, in order, once for each batch."""
    if fleet.typist.type_keys(id, keys):
        fleet.changes.notify([id])


@order("stop", find_agent_host, at="/agents/{id:int}/stop", is_alone=True)
def stop_agent(fleet: FleetParts, id: int) -> FleetAgent:
    """End an agent by its own exit command; answers once it has ended.

    Raises AgentNotFound, NotPossible, StepFailed, HostAway.
    """
    if running := commands.find_running(fleet.database, id):
        raise AlreadyUnderWay(
            f"Handoff {running.id[:8]} of agent {id} is under way. Cancel it first: "
            f"tasuki agent cancel {running.id[:8]}"
        )
    agent = queries.load_agent(fleet.database, id)
    if agent.ended_at is None:
        messages.check_managed(agent)
    try:
        fleet.shutdown.shut_down_agent(id)
    except ServerClosing as error:
        raise ServerEnds(
            f"The server ends before agent {id} did. Stop it again once the server runs: nothing is done twice."
        ) from error
    fleet.changes.notify([id])
    return queries.load_agent(fleet.database, id)


@order("look", find_agent_host, seconds=LOOK_SECONDS)
def read_screen(fleet: FleetParts, id: int) -> str:
    """Return what a pane shows, without secrets. Raises AgentNotFound, NotPossible, HostAway."""
    return terminals.read_screen(fleet.panes, queries.load_agent(fleet.database, id))


@order("look", find_agent_host, seconds=LOOK_SECONDS)
def read_terminal(fleet: FleetParts, id: int, known: KnownTerminal) -> dict[str, Any]:
    """Return the terminal of an agent with colours and the rows above, without secrets.

    A `TerminalView`, without what the asker knows, and only `{"tag"}` where that is all.
    """
    return fleet.terminals.read_terminal(queries.load_agent(fleet.database, id), known)


@order("look", find_agent_host, seconds=CHANGES_SECONDS)
def read_changes(fleet: FleetParts, id: int, since: Since = "start", diff: str = "") -> WorkChanges:
    """Read what an agent changed since its start, or since its last handoff document.

    `diff` is `all` for the differences of every file, or the key of one file. What cannot be
    read is said in its `problem`. Raises AgentNotFound, HostAway.
    """
    document_at = find_document_time(fleet.database, id) if since == "handoff" else None
    agent = queries.load_agent(fleet.database, id)
    return work.read_changes(agent, since=since, document_at=document_at, diff=diff)


@order("look", find_agent_host, seconds=CHANGES_SECONDS)
def find_pull_request(fleet: FleetParts, id: int) -> PullRequest:
    """Find the pull request of an agent's branch by `gh`; without one its `note` says why."""
    return fleet.pull_requests.find(queries.load_agent(fleet.database, id).cwd)


def describe_other_host(fleet: FleetParts, agent: FleetAgent) -> str:
    """Return a sentence where an agent is another host's; empty for this one's."""
    if agent.host == fleet.host:
        return ""
    label = read_labels(fleet.database, [agent.host]).get(agent.host, agent.host)
    return (
        f"Agent {agent.id} runs on the host {label}, not on this one. Attach to it there: "
        f"tasuki agent attach {agent.id}"
    )


def mute_agent(fleet: FleetParts, id: int, span: str) -> MuteChange:
    """Mute an agent's alerts; `span` as `parse_mute` takes it. Raises AgentNotFound, UsageError.

    It is no order: any host may change this row.
    """
    change = alerts.mute_agent(fleet.database, queries.load_agent(fleet.database, id), span)
    fleet.changes.notify([id])
    return change


def restore_mute(fleet: FleetParts, change: MuteChange) -> None:
    """Undo a mute, or its end. Raises NotPossible where the agent was muted anew since."""
    alerts.restore_mute(fleet.database, change)
    fleet.changes.notify([change.agent_id])


@order("stop", lambda fleet, **_: fleet.host, at="/agents/{id:int}/clear")
def clear_agent(fleet: FleetParts, id: int) -> FleetAgent:
    """Clear a lost agent: it counts as ended, and is not to be recovered; its thread stays."""
    cleared = agent_ends.clear_lost_agent(fleet.database, id)
    fleet.changes.notify([id])
    return cleared
