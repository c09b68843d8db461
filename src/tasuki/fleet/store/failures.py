"""Every way in which a step of a handoff can fail: its name, and what the operator can do."""

from tasuki import errors
from tasuki.errors import TasukiError
from tasuki.files import FULL

REMEDIES = {
    "agent_gone": "Hand it off from its thread: tasuki agent handoff {agent} --reason ended --from-thread",
    "agent_busy": "Wait until it is idle, or interrupt its turn, then retry.",
    "agent_limited": "Hand it off from its thread, to another harness: tasuki agent handoff {agent} --reason limit "
    "--to HARNESS. Or retry once its limit has reset.",
    "agent_waiting": "Answer its question, then retry: tasuki agent answer ID",
    "children_running": "Wait for them or end them, then retry; or hand off with --force.",
    "instruction_refused": "Look at its terminal, then retry.",
    "instruction_uncertain": "Look at its terminal. If the instruction is there or was taken, press Enter there or wait for the "
    "document, then retry: a document that exists is used. Nothing is typed twice automatically.",
    "turn_interrupted": "The agent is alive and usable. Retry: a document that exists by then is used.",
    "turn_too_long": "The agent is alive. Retry once it has written the document: it is used as it is.",
    "document_missing": "The agent is alive and usable. Ask it what happened; retry instructs it again, or uses the file once it exists.",
    "document_empty": "The agent is alive and usable. Retry instructs it again, or uses the file once something is in it.",
    "document_growing": "Something still writes to it. Retry once that has ended.",
    "document_unsafe": "Remove what is at that path, then retry.",
    "document_unreadable": "Make the file readable, then retry.",
    "thread_missing": "Its thread cannot be found, so nothing can be written from it. Write the document yourself, then retry.",
    "thread_unusable": "Its thread says too little. Write the document yourself at that path, then retry.",
    "worktree_failed": "Fix that, then retry; or give it up (cancel) and fork without a worktree. Nothing of the agent was changed.",
    "work_not_packed": "Nothing of the repository was changed, and the agent is alive. Fix that, then retry; or commit and push, "
    "and move it without uncommitted work.",
    "work_not_unpacked": "The work is safe where it came from, and nothing of others was overwritten. Fix that, then retry: it resumes "
    "where it stopped; or give it up (cancel), which removes what was made.",
    "author_failed": "Fix the settings of the author (tasuki config, tasuki doctor), then retry: they are read again. Nothing was lost.",
    "settings_invalid": "Fix that setting, then retry: the settings are read again. Nothing was lost.",
    "host_given_up": "Give it up (cancel), then hand agent {agent} off to another host. The record and the document are kept.",
    "no_room": "Free some space, then retry. Nothing was lost.",
    "shutdown_failed": "End the program in its pane yourself, then retry. The record and the document are kept.",
    "successor_not_started": "Fix that, then retry. The record and the document are kept.",
    "successor_died": "Read its last output, then retry: a new one is started. The record and the document are kept.",
    "successor_silent": "Look at its terminal: a dialog may wait for an answer, or tasuki's hooks are not installed (tasuki doctor). Then retry.",
    "skill_missing": "Look at its terminal, then retry.",
    "skill_refused": "Look at its terminal, then retry. The document is kept.",
    "skill_uncertain": "Look at its terminal, then retry: the skill is typed again. Nothing of the handoff was typed yet.",
    "prompt_refused": "Look at its terminal, then retry. The document is kept.",
    "prompt_uncertain": "Look at its terminal. If the prompt arrived: finish. If it did not: retry, which types it again.",
    "not_delivered": "Look at its terminal. If the prompt arrived: finish. If it did not: retry, which types it again.",
    "not_acknowledged": "Look at its terminal. If it is working, skip this step. Otherwise type the prompt there.",
    "persona_unusable": "Put that back or make it readable, then retry. Nothing was lost.",
    "not_possible": "Fix that, then retry. Nothing was lost.",
    "tmux_failed": "Look at tmux, then retry. Nothing was lost.",
    "unexpected": "Nothing was lost. Retry; if it happens again, the server's log says more.",
}
"""What to do about each named failure."""
UNCERTAIN_CODES = frozenset({"instruction_uncertain", "skill_uncertain", "prompt_uncertain"})
"""Failures of which neither arrival nor absence can be proven."""


class StepFailed(TasukiError):
    """A step of a handoff failed: `code` is its name in `REMEDIES`, the message says what happened."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        assert code in REMEDIES, code
        self.code = code


_CODES: dict[type[TasukiError], str] = {
    errors.LaunchFailed: "tmux_failed",
    errors.PersonaNotFound: "persona_unusable",
    errors.StoreFailed: "persona_unusable",
    errors.ConfigInvalid: "settings_invalid",
    errors.ThreadNotFound: "thread_missing",
    errors.ThreadUnreadable: "thread_missing",
    errors.TasukiError: "not_possible",
}


def name_failure(error: Exception) -> tuple[str, str]:
    """Return the code of a failure that a step did not name, and a sentence without code names."""
    if isinstance(error, StepFailed):
        return error.code, str(error)
    if isinstance(error, TasukiError):
        return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), str(error)
    if isinstance(error, OSError):
        code = "no_room" if error.errno in FULL else "not_possible"
        where = f"{error.filename}: " if error.filename else ""
        return code, f"{where}{error.strerror or error}."
    return "unexpected", "An error in tasuki itself."


class HandoffStopped(TasukiError):
    """The handoff was cancelled while a step waited."""


class ServerClosing(BaseException):
    """The server ends while a step waits: the step is carried out again at the next start.

    It is no Exception, so that it is never taken for the step's outcome.
    """
