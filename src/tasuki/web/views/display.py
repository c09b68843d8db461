"""Rows as they are displayed: without secrets in what people and agents wrote, and with their states.

A state is a shape, a word, then a colour.
"""

import os
from typing import Any, TypeVar

import msgspec
from litestar import Response
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import UsageError
from tasuki.fleet.agents.agent_ends import LostAgent
from tasuki.fleet.alerts import describe_mute
from tasuki.fleet.exchange.shared_files import load_document
from tasuki.fleet.handoff.documents import POOR_QUALITY, read_quality
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, GoalTemplate
from tasuki.fleet.store.queries import LineageChain
from tasuki.harness import registry as harnesses
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line


class StateBadge(Struct, frozen=True):
    """A state. `icon` is the id of a drawing in `base.html`, `tone` a class of the style sheet."""

    icon: str
    word: str
    tone: str
    until: float | None = None
    """When it ends, in seconds since 1970, where that is known."""


AGENT_SHAPES = {
    "starting": StateBadge("now", "Starting", "run"),
    "idle": StateBadge("idle", "Idle", "rest"),
    "busy": StateBadge("busy", "Busy", "run"),
    "waiting": StateBadge("wait", "Waiting for you", "attn"),
    "compacting": StateBadge("comp", "Compacting", "run"),
    "limited": StateBadge("ask", "At a usage limit", "attn"),
    "failed": StateBadge("fail", "Its turn failed", "attn"),
    "stuck": StateBadge("ask", "Stuck", "attn"),
    "ended": StateBadge("end", "Ended", "rest"),
    "lost": StateBadge("ask", "Lost", "attn"),
}
PAST_THRESHOLD = StateBadge("past", "Past threshold", "attn")
HANDING_OFF = StateBadge("hand", "Handing off", "run")
WHILE_HANDED_OFF = {
    "running": HANDING_OFF,
    "failed": StateBadge("fail", "Handoff failed", "fail"),
    "uncertain": StateBadge("ask", "Handoff uncertain", "attn"),
}
"""The state of an agent by that of its open handoff."""
HANDED_OFF = StateBadge("end", "Handed off", "rest")
HANDOFF_SHAPES = {
    "running": StateBadge("now", "Under way", "run"),
    "failed": StateBadge("fail", "Failed", "fail"),
    "uncertain": StateBadge("ask", "Uncertain", "attn"),
    "done": StateBadge("done", "Done", "done"),
    "cancelled": StateBadge("end", "Cancelled", "rest"),
}
ALERT_SHAPES = {
    "done": StateBadge("done", "Done", "done"),
    "failed": StateBadge("fail", "Failed", "fail"),
    "limited": StateBadge("ask", "Usage limit", "attn"),
    "needs_you": StateBadge("wait", "Needs you", "attn"),
    "stuck": StateBadge("ask", "Stuck", "attn"),
    "threshold": StateBadge("past", "Threshold", "attn"),
    "unacknowledged": StateBadge("ask", "Not confirmed", "attn"),
}
END_WORDS = {
    "prompt_input_exit": "It was closed in its terminal", "logout": "Its user logged out", "other": "",
    "bypass_permissions_disabled": "It may not skip permissions here", "exit": "It was closed in its terminal",
    "quit": "It was closed in its terminal",
}  # fmt: skip
"""Why a session ended, by the words of the programs that are codes."""
DELIVERY_WORDS = {
    "proven": "Delivered: its turn began", "refused": "Not sent", "uncertain": "It is not known whether it arrived",
}  # fmt: skip
EVENT_WORDS = {
    "started": "began", "busy": "works", "idle": "turn ended", "waiting": "asks", "context": "context use",
    "child_started": "background begun", "child_ended": "background ended", "alarm": "failure",
}  # fmt: skip
"""The kinds of lines of the log that are no plain words."""
STEP_WORDS = {
    "worktree": ("Making the worktree", "Where one was asked for; the branch is new"),
    "write": ("Writing the document", "The document is written from the thread"),
    "await_idle": ("Waiting until idle", "No turn, no compaction, nothing of it in the background"),
    "instruct": ("Asking for the document", "It is asked for the document, once"),
    "await_turn": ("Waiting for the end of its turn", "The turn that writes the document has ended"),
    "check": ("Checking the document", "Sections and facts; what is missing is added from the thread"),
    "record": ("Recording", "Path and prompt are recorded"),
    "shut_down": ("Shutting down", "/exit first, signals only where it does not answer"),
    "restore": ("Fetching the thread", "The agent's host is gone: its thread comes from the database"),
    "pack": ("Packing its work", "Uncommitted work and the thread, for the other host"),
    "unpack": ("Unpacking its work", "On the other host: a clean checkout, or a new worktree"),
    "fetch": ("Fetching the document", "On the other host: document, thread and brief as they are now"),
    "create": ("Creating the successor", "A window is opened, the program started"),
    "register": ("Waiting for its registration", "Its session begins"),
    "skill": ("Giving the skill", "It gets the skill of its persona"),
    "prompt": ("Sending the prompt", "30 s at most, sent once"),
    "deliver": ("Waiting for the delivery", "When the successor’s own thread holds the prompt"),
    "acknowledge": ("Waiting for its confirmation", "When its answer begins with the id; an alert after 5 min"),
}  # fmt: skip
"""Name of each step, and what it waits for while it is to come."""


def get_harness_title(name: str) -> str:
    """Return the name of a harness for people; its own where it is no longer known."""
    try:
        return harnesses.get_harness(name).title
    except UsageError:
        return shorten_to_line(name, 40)


def format_agent_name(agent: FleetAgent) -> str:
    """Format the name of an agent: its persona, else its harness and where it is."""
    if agent.persona:
        return agent.persona
    title = get_harness_title(agent.harness)
    return f"{title} in pane {agent.pane}" if agent.pane else f"{title}, agent {agent.id}"


def get_agent_shape(
    agent: FleetAgent, handoff: FleetHandoff | None = None, *, is_past: bool = False
) -> StateBadge:
    """Return the one state of an agent, which every page shows; that of its handoff comes first.

    `is_past`: its context is past the threshold. A usage limit has the time at which it resets.
    """
    if handoff and handoff.state in WHILE_HANDED_OFF:
        return WHILE_HANDED_OFF[handoff.state]
    if handoff and handoff.state == "done" and agent.ended_at is not None:
        return HANDED_OFF
    if agent.state == "idle" and is_past and agent.persona:
        return PAST_THRESHOLD
    shape = AGENT_SHAPES[agent.state]
    is_limited = agent.state == "limited" and agent.limited_until
    return replace(shape, word="Limited", until=agent.limited_until) if is_limited else shape


def get_handoff_shape(handoff: FleetHandoff) -> StateBadge:
    """Return the state of a handoff; that of a poor document says so."""
    quality = read_quality(handoff)
    if handoff.state == "done" and quality is not None and quality < POOR_QUALITY:
        return StateBadge("ask", f"Done, document {quality} of 100", "attn")
    return HANDOFF_SHAPES[handoff.state]


def describe_end(reason: str) -> str:
    """Describe why an agent ended, as a sentence; empty where that is not known."""
    sentence = END_WORDS.get(reason, reason)
    return f"{sentence[:1].upper()}{sentence[1:]}".rstrip(".") + "." if sentence else ""


def describe_delivery(state: str, why: str) -> str:
    """Describe what became of a message that was sent to an agent, as a sentence."""
    word = "Delivered" if why and state == "proven" else DELIVERY_WORDS[state]
    return f"{word}: {why.rstrip('.')}." if why else f"{word}."


def get_step_name(handoff: FleetHandoff) -> str:
    """Return the name of the current or last step of a handoff."""
    if handoff.state == "done":
        return "Done"
    return STEP_WORDS.get(handoff.step, (handoff.step, ""))[0]


_COMMANDS = compile_pattern(
    r" List them: tasuki [^.;]*|(?:: | \(|, or name another one: )(?:tasuki [a-z]+[^.;)]*|--[a-z][a-z-]*[^.;)]*)\)?(?=[.;,]|$| )"
)
_PAGE_WORDS = {
    ", or omit --tmux to start the successor in this terminal": "", "hand off with --force": "hand it off all the same",
    "name one: --to-cwd": "name one below", "Name one: --to-cwd": "Name one below", "use --with-secrets": "tick the box below",
}  # fmt: skip
"""What messages say of the command line, and what a page says instead."""


def say_for_page(text: str) -> str:
    """Return a message without the commands and options that it names: a page has buttons."""
    said = text
    for words, others in _PAGE_WORDS.items():
        said = said.replace(words, others)
    said = _COMMANDS.sub("", said).strip()
    return said if said == text or said[-1:] in ".!?”)" else f"{said}."


T = TypeVar("T", FleetAgent, FleetHandoff)
MOST_DOCUMENT_BYTES = 1 << 20
"""Most bytes of a handoff document that are shown."""
_AGENT_FIELDS = (
    "goal", "arguments", "cwd", "end_reason", "waiting_for", "children", "last_words", "failure", "limit_text",
    "stuck_with", "begun_branch", "changes",
)  # fmt: skip
_HANDOFF_FIELDS = ("reason", "context", "goal", "injection_prompt", "failure", "notes")


def redact_agent(row: FleetAgent) -> dict[str, Any]:
    """Return an agent as data, without secrets; `muted` says in words until when it is muted."""
    return {**_redact_fields(row, _AGENT_FIELDS), "muted": describe_mute(row.muted_until)}


def redact_handoff(row: FleetHandoff) -> dict[str, Any]:
    """Return a handoff as data, without secrets."""
    return _redact_fields(row, _HANDOFF_FIELDS)


def redact_lost_agent(lost: LostAgent, recovery: FleetHandoff | None = None) -> dict[str, Any]:
    """Return a lost agent, why it cannot be recovered, and the handoff that recovers it."""
    return {
        "agent": redact_agent(lost.agent), "refused": lost.refused, "retried": lost.retried.id if lost.retried else "",
        "handoff": redact_handoff(recovery) if recovery else None,
    }  # fmt: skip


def redact_template(template: GoalTemplate) -> GoalTemplate:
    """Return a template without secrets."""
    redact = Redactor().redact
    return replace(template, goal=redact(template.goal), name=redact(template.name))


def redact_row(row: T) -> T:
    """Return an agent or a handoff as the same struct, without secrets."""
    data = redact_agent(row) if isinstance(row, FleetAgent) else redact_handoff(row)
    return msgspec.convert(data, type(row))


def redact_chain(lineage_chain: LineageChain) -> list[dict[str, Any]]:
    """Return the links of a chain as data, without secrets."""
    return [
        {
            "agent": redact_agent(link.agent),
            "handoff": redact_handoff(link.handoff) if link.handoff else None,
            "took_over": link.took_over,
        }
        for link in lineage_chain.links
    ]


def read_document(path: str) -> str | None:
    """Read a handoff document, at most 1 MiB; None where there is none.

    A link in its place is not followed.
    """
    if not path:
        return None
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            content = file.read(MOST_DOCUMENT_BYTES)
    except OSError:
        return None
    return Redactor().redact(content.decode("utf-8", "replace"))


def read_shared_document(database: FleetDatabase, handoff: FleetHandoff) -> str | None:
    """Read the document of a handoff, of whatever host, without secrets; None where there is none."""
    here = read_document(handoff.file_path)
    if here is not None or database.is_sqlite:
        return here
    content = load_document(database, handoff.id)
    return None if content is None else Redactor().redact(content)


def redact_answer(response: Response[Any]) -> Response[Any]:
    """Redact the data of an answer, whatever it is: the last thing before it is written."""
    if isinstance(response.content, dict | list | tuple | Struct):
        response.content = Redactor().redact_data(msgspec.to_builtins(response.content))
    return response


def keep_answer(response: Response[Any]) -> Response[Any]:
    """Leave an answer as it is: a secret is what was asked for."""
    return response


def _redact_fields(row: msgspec.Struct, fields: tuple[str, ...]) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    redactor = Redactor()
    for name in fields:
        if view[name]:
            view[name] = redactor.redact_data(view[name])
    if question := view.get("question"):  # it is kept without secrets
        del question["subject"], question["behind"]
    return view
