"""Drafts that hooks make, shown in tmux, and the suggestion of a handoff when the context fills up.

A draft is made from a thread that may still be written. A suggestion is made once for a thread.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings
from tasuki.errors import NothingToHandOff, TasukiError
from tasuki.files import is_possible
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import HarnessIntegration, HookCall
from tasuki.harness.protocol import Harness, LaunchPlan, ThreadFile
from tasuki.launch.processes import find_withheld_variables
from tasuki.model import Thread
from tasuki.session.thread_memory import ThreadMemory

AUTHOR_SECONDS = 100
"""Time limit of an author in a hook, which has its own limit."""
WRITTEN_SECONDS = 2.0
"""How long to wait for a thread that is being written."""
QUIET_SECONDS = 0.25
"""A thread is whole after this long without a write."""
ANSWER_BYTES = 1 << 20
"""Bytes from the end of a thread searched for its last answer, besides the answer's length."""
WINDOW_SCRIPT = """\
folder=$1; shift
"$@"; code=$?
if [ -n "$folder" ]; then rm -f -- "$folder/goal"; rmdir -- "$folder"; fi
[ $code = 0 ] || { printf '\\n[Press Enter to close this window.] '; read -r line; }
exit $code"""
"""Runs in the new window: the review, and a moment to read why nothing was started."""


def find_folder(call: HookCall) -> str:
    """Return the folder of a call, else the current one: the call's may be gone."""
    return call.cwd if os.path.isdir(call.cwd) else os.getcwd()


def wait_for_thread(name: str, answer: str = "") -> Path:
    """Wait until a thread file holds the agent's last answer and nothing is being written to it.

    Agents write an answer some 100 ms after they show it, on a busy machine much later. Raises
    NothingToHandOff where there is no file: some agents create it with the first answer.
    """
    name = name if is_possible(name) else ""
    path, deadline = Path(name), time.monotonic() + WRITTEN_SECONDS
    thread_file = harnesses.get_containing_file(path)
    while name and time.monotonic() < deadline:
        try:
            if time.time() - thread_file.stat().st_mtime > QUIET_SECONDS and _contains_answer(
                thread_file, answer
            ):
                return path
        except OSError:
            pass
        time.sleep(0.03)
    if name and thread_file.exists():
        return path
    raise NothingToHandOff(
        "Nothing to hand off (no messages yet). To hand off an earlier conversation in this folder, "
        'type in a shell: tasuki "GOAL"'
    )


def _contains_answer(thread: Path, answer: str) -> bool:
    """Whether an answer is after the last words of the user in a thread of JSON lines."""
    longest = max(answer.splitlines(), key=len, default="").strip()[:100]
    if not longest:
        return True
    words = json.dumps(longest, ensure_ascii=False)[1:-1].encode(errors="replace")
    with thread.open("rb") as file:
        file.seek(max(0, thread.stat().st_size - ANSWER_BYTES - len(answer) * 4))
        lines = file.read().splitlines()
    for line in reversed(lines):
        if words in line:
            return True
        if b'"role":"user"' in line:
            return False
    return False


def open_window(
    arguments: tuple[str, ...], cwd: str, loaded: LoadedSettings, folder: str = ""
) -> str:
    """Run tasuki in a new window or popup of tmux; return which of them, in words.

    `folder` holds the file `goal`, and is removed when tasuki has ended. Raises LaunchFailed.
    """
    from tasuki import handoffs
    from tasuki.install.installer import find_own_command
    from tasuki.launch.tmux.server import start_in_popup, start_in_tmux

    withheld = harnesses.list_child_variables()
    plan = LaunchPlan(
        argv=("sh", "-c", WINDOW_SCRIPT, "tasuki", folder, *find_own_command(), *arguments),
        cwd=cwd,
        env={k: v for k, v in find_withheld_variables().items() if k not in withheld}
        | {handoffs.INSIDE: "1"},
        unset=withheld,
        ready=r"\S",
    )
    if loaded.settings.review_in == "popup":
        start_in_popup(plan)
        return "popup"
    start_in_tmux(plan, "handoff")
    return "new tmux window"


def create_draft(
    harness: Harness, path: Path, goal: str, loaded: LoadedSettings, *, force: bool = False
) -> str:
    """Create a draft and keep it; return the beginning of its id."""
    from tasuki import handoffs
    from tasuki.draft.goal import check_goal
    from tasuki.vault import Vault

    settings = loaded.settings
    quick = replace(settings, author_seconds=min(settings.author_seconds, AUTHOR_SECONDS))
    prepared = handoffs.prepare_handoff(
        harness,
        path,
        check_goal(goal, min_length=settings.min_goal_length, force=force),
        replace(loaded, settings=quick),
        successor=harnesses.get_harness(settings.to or harness.name),
        vault=Vault(),
        must_keep=True,
    )
    return prepared.handoff.id[:8]


USUAL_WINDOW = 200_000
"""Tokens of a context whose size is unknown."""
LARGE_WINDOW = 1_000_000
"""Tokens of the context of a thread that holds more than the usual one."""
FRESH_TURNS = 5
"""Turns of the user before a thread from a handoff is handed off automatically."""


# -- the end of a turn -----------------------------------------------------------------


def suggest_at_turn_end(
    harness: Harness, call: HookCall, integration: HarnessIntegration, loaded: LoadedSettings
) -> str:
    """Return the message for the user at the end of a turn; empty for none.

    Raises the errors of a draft, where one is made.
    """
    settings = loaded.settings
    memory = ThreadMemory(harness.name, call.thread_id or call.path)
    memory.note_settings(call.cwd, settings, integration)
    thresholds = [at for at in (settings.suggest_at, settings.auto_handoff_at) if at]
    if not thresholds or not call.path:
        return ""
    used = measure_context_use(harness, call, memory)
    if used is None or used < min(thresholds):
        return ""
    is_automatic = settings.auto_handoff_at and used >= settings.auto_handoff_at
    if is_automatic and (message := _draft_automatically(harness, call, loaded, used, memory)):
        memory.is_first(f"suggested-{settings.suggest_at}")
        return message
    is_due = settings.suggest_at and used >= settings.suggest_at
    if not is_due or not memory.is_first(f"suggested-{settings.suggest_at}"):
        return ""
    message = f"The context is {used:.0f} % full. Hand off while the agent still has all of it: {integration.command}"
    return _notify_too(
        loaded, f"{harness.title}: the context is {used:.0f} % full", message, call.cwd
    )


def measure_context_use(harness: Harness, call: HookCall, memory: ThreadMemory) -> float | None:
    """Measure the percent of the context that a thread fills, None if it is unknown.

    From the payload of the hook, else from the thread's last figures and the window that the
    thread or the status line reports.
    """
    if call.used is not None:
        return call.used
    path = Path(call.path)
    thread_file = harnesses.get_containing_file(path)
    if not thread_file.exists():
        return None
    wait_for_thread(call.path, call.text)
    stat = thread_file.stat()
    head = harness.read_head(ThreadFile(path, stat.st_mtime, stat.st_size))
    if head is None or head.context_tokens is None:
        return None
    tokens = head.context_tokens
    guessed_window = USUAL_WINDOW if tokens <= USUAL_WINDOW else LARGE_WINDOW
    window = head.context_window or call.window or memory.read_window() or guessed_window
    if _contains_answer(thread_file, call.text):
        memory.note_most(100 * tokens / window, window, stat.st_size)
    return 100 * tokens / window


def _notify_too(loaded: LoadedSettings, title: str, message: str, cwd: str) -> str:
    """Send a message as a notification too, where that is wanted; return it with any problems."""
    if not loaded.settings.notify:
        return message
    from tasuki import notify

    try:
        problems = notify.send_notification(loaded.settings.notify, title, f"{message} ({cwd})")
    except TasukiError as error:
        problems = [str(error)]
    return "\n".join((message, *problems))


# -- automatic drafts ------------------------------------------------------------------


def _draft_automatically(
    harness: Harness, call: HookCall, loaded: LoadedSettings, used: float, memory: ThreadMemory
) -> str:
    """Make a draft with the user's last request as its goal, show it, and return a message.

    Once for a thread, and not for one that itself began with a handoff a few turns ago:
    otherwise a brief that fills half of the window would hand itself on for ever. Nothing is
    sent.
    """
    path = wait_for_thread(call.path)
    thread = harness.read(path)
    goal = find_last_request(thread)
    if not goal or is_fresh_successor(thread) or not memory.is_first("automatic"):
        return ""
    id = create_draft(harness, path, goal, loaded, force=True)
    message = f"The context is {used:.0f} % full, so handoff {id} was drafted with your last request as its goal."
    cwd = find_folder(call)
    advice = f"Review and start it in another terminal: tasuki start {id}"
    if os.environ.get("TMUX"):
        with suppress(TasukiError):
            advice = f"Review it in the {open_window(('start', id), cwd, loaded)}."
    return _notify_too(
        loaded, f"{harness.title}: a handoff was drafted", f"{message} {advice}", cwd
    )


def find_last_request(thread: Thread) -> str:
    """Find what the user asked for last, word for word."""
    requests = (e.text for e in reversed(thread.entries) if e.is_prompt)
    return next((text for text in requests if text.strip()), "")


def is_fresh_successor(thread: Thread) -> bool:
    """Whether a thread began with a handoff, and the user has hardly spoken since."""
    if not any(e.origin == "handoff" for e in thread.entries[:4]):
        return False
    return sum(e.is_prompt for e in thread.entries) < FRESH_TURNS
