"""States as pages show them: a shape, a word, then a colour.

And the wordings of the fleet's names.
"""

from msgspec import Struct

from tasuki.fleet.store.models import FleetAgent, FleetHandoff


class StateShape(Struct, frozen=True):
    """A state. `icon` is the id of a drawing in `base.html`, `tone` a class of the style sheet."""

    icon: str
    word: str
    tone: str


AGENT_SHAPES = {
    "starting": StateShape("now", "Starting", "run"),
    "idle": StateShape("idle", "Idle", "rest"),
    "busy": StateShape("busy", "Busy", "run"),
    "waiting": StateShape("wait", "Waiting for you", "attn"),
    "compacting": StateShape("comp", "Compacting", "run"),
    "ended": StateShape("end", "Ended", "rest"),
    "lost": StateShape("ask", "Lost", "attn"),
}
PAST_THRESHOLD = StateShape("past", "Past threshold", "attn")
HANDING_OFF = StateShape("hand", "Handing off", "run")
HANDOFF_SHAPES = {
    "running": StateShape("now", "Under way", "run"),
    "failed": StateShape("fail", "Failed", "fail"),
    "uncertain": StateShape("ask", "Uncertain", "attn"),
    "done": StateShape("done", "Done", "done"),
    "cancelled": StateShape("end", "Cancelled", "rest"),
}
ALERT_SHAPES = {
    "done": StateShape("done", "Done", "done"),
    "failed": StateShape("fail", "Failed", "fail"),
    "needs_you": StateShape("wait", "Needs you", "attn"),
    "threshold": StateShape("past", "Threshold", "attn"),
    "unacknowledged": StateShape("ask", "Not acknowledged", "attn"),
}
STEP_WORDS = {
    "write": ("Writing the document", "The document is written from the thread"),
    "await_idle": ("Waiting until idle", "No turn, no compaction, nothing of it in the background"),
    "instruct": ("Asking for the document", "It is asked for the document, once"),
    "await_turn": ("Waiting for the end of its turn", "That turn, and no other, ends"),
    "check": (
        "Checking the document",
        "Sections and facts; what is missing is added from the thread",
    ),
    "record": ("Recording", "Path and prompt are recorded"),
    "shut_down": ("Shutting down", "/exit first, signals only where it does not answer"),
    "create": ("Creating the successor", "A window is opened, the program started"),
    "register": ("Waiting for its registration", "Its session begins"),
    "skill": ("Giving the skill", "It gets the skill of its persona"),
    "prompt": ("Sending the prompt", "30 s at most, sent once"),
    "deliver": ("Waiting for the delivery", "When the successor’s own thread holds the prompt"),
    "acknowledge": (
        "Waiting for the acknowledgement",
        "When its answer begins with the id; an alarm after 5 min",
    ),
}
"""Name of each step, and what it waits for while it is to come."""


def format_agent_name(agent: FleetAgent, title: str) -> str:
    """Format the name of an agent: its persona, else its harness and where it is."""
    if agent.persona:
        return agent.persona
    return f"{title} in pane {agent.pane}" if agent.pane else f"{title}, agent {agent.id}"


def get_step_name(handoff: FleetHandoff) -> str:
    """Return the name of the current or last step of a handoff."""
    return STEP_WORDS.get(handoff.step, (handoff.step, ""))[0]
