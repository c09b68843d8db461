"""States as they are shown: a shape, a word, then a colour; and how the fleet's own words read."""

from msgspec import Struct

from tasuki.fleet.rows import Agent, FleetHandoff


class Shown(Struct, frozen=True):
    """A state. `icon` is the id of a drawing in `base.html`, `tone` a class of the style sheet."""

    icon: str
    word: str
    tone: str


OF_AGENT = {
    "starting": Shown("now", "Starting", "run"),
    "idle": Shown("idle", "Idle", "rest"),
    "busy": Shown("busy", "Busy", "run"),
    "waiting": Shown("wait", "Waiting for you", "attn"),
    "compacting": Shown("comp", "Compacting", "run"),
    "ended": Shown("end", "Ended", "rest"),
    "lost": Shown("ask", "Lost", "attn"),
}
PAST = Shown("past", "Past threshold", "attn")
HANDING_OFF = Shown("hand", "Handing off", "run")
OF_HANDOFF = {
    "running": Shown("now", "Under way", "run"),
    "failed": Shown("fail", "Failed", "fail"),
    "uncertain": Shown("ask", "Uncertain", "attn"),
    "done": Shown("done", "Done", "done"),
    "cancelled": Shown("end", "Cancelled", "rest"),
}
OF_ALERT = {
    "done": Shown("done", "Done", "done"),
    "failed": Shown("fail", "Failed", "fail"),
    "needs_you": Shown("wait", "Needs you", "attn"),
    "threshold": Shown("past", "Threshold", "attn"),
    "unacknowledged": Shown("ask", "Not acknowledged", "attn"),
}
STEPS = {
    "write": ("Write document", "The document is written from the thread"),
    "await_idle": ("Wait until idle", "No turn, no compaction, nothing of it in the background"),
    "instruct": ("Instruct", "It is asked for the document, once"),
    "await_turn": ("Wait for stop", "That turn, and no other, ends"),
    "check": ("Check document", "Sections and facts; what is missing is added from the thread"),
    "record": ("Record", "Path and prompt are written down"),
    "shut_down": ("Shut down", "/exit first, signals only where it does not answer"),
    "create": ("Create successor", "A window is opened, the program started"),
    "register": ("Registered", "Its session begins"),
    "skill": ("Skill injected", "It gets the skill of its persona"),
    "prompt": ("Prompt sent", "30 s at most, sent once"),
    "deliver": ("Delivered", "When the successor’s own thread holds the prompt"),
    "acknowledge": ("Acknowledged", "When its answer begins with the id; an alarm after 5 min"),
}
"""Name of each step, and what it waits for while it is to come."""


def name_of(agent: Agent, title: str) -> str:
    """What an agent is called: its persona, else its harness and where it is."""
    if agent.persona:
        return agent.persona
    return f"{title} in pane {agent.pane}" if agent.pane else f"{title}, agent {agent.id}"


def failed_step(of: FleetHandoff) -> str:
    """The name of the step in which a handoff is or was."""
    return STEPS.get(of.step, (of.step, ""))[0]
