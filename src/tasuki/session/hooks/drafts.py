"""Drafts that hooks make: from a thread that may still be written, and shown in tmux."""

import json
import os
import time
from pathlib import Path

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings
from tasuki.errors import NothingToHandOff
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import HookCall
from tasuki.harness.protocol import Harness, LaunchPlan
from tasuki.paths import is_possible
from tasuki.session.hooks.agent_environment import AGENT_VARIABLES, find_withheld_variables

AUTHOR_SECONDS = 100
"""Time limit of an author in a hook, which has a limit of its own."""
WRITTEN_SECONDS = 2.0
"""How long to wait for a thread that is being written."""
QUIET_SECONDS = 0.25
"""A thread is whole after this long without a write."""
ANSWER_BYTES = 64 << 10
"""Bytes from the end of a thread searched for its last answer, besides the answer's length."""
WINDOW_SCRIPT = """\
folder=$1; shift
"$@"; code=$?
if [ -n "$folder" ]; then rm -f -- "$folder/goal"; rmdir -- "$folder"; fi
[ $code = 0 ] || { printf '\\n[Enter closes this window.] '; read -r line; }
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
    raise NothingToHandOff("Nothing to hand off (no messages yet).")


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
    from tasuki.harness.install.installer import find_own_command
    from tasuki.launch.tmux.server import start_in_tmux

    plan = LaunchPlan(
        argv=("sh", "-c", WINDOW_SCRIPT, "tasuki", folder, *find_own_command(), *arguments),
        cwd=cwd,
        env={k: v for k, v in find_withheld_variables().items() if k not in AGENT_VARIABLES}
        | {handoffs.INSIDE: "1"},
        unset=AGENT_VARIABLES,
        ready=r"\S",
    )
    if loaded.settings.review_in == "popup":
        from tasuki.launch.tmux.server import start_in_popup

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
