"""What a hook of a harness asks of tasuki, and what it prints.

The command is taken out of the prompts, so the model never sees it. In tmux a new window
shows the draft for review, and the successor starts next to it; elsewhere the draft is made
and kept.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings
from tasuki.errors import GoalHasSecret, LaunchFailed, TasukiError, UsageError
from tasuki.files import is_possible
from tasuki.harness import registry as harnesses
from tasuki.harness.integration import COMPACTION_KINDS, HookAnswer, HookCall
from tasuki.harness.protocol import Harness
from tasuki.session.hook_drafts import (
    create_draft,
    find_folder,
    open_window,
    suggest_at_turn_end,
    wait_for_thread,
)
from tasuki.session.thread_memory import START_PERCENT, ThreadMemory
from tasuki.session.turn_end import do_work, start_work

MOST_PAYLOAD_BYTES = 64 << 20
OUTSIDE_FLAG = "--no-fleet"
"""Before the goal: hand off to a successor outside of the fleet."""
HandOffInFleet = Callable[[str, Sequence[str]], str]
"""Takes a goal and names of the calling thread."""


def answer_hook(
    name: str, payload: bytes, hand_off_in_fleet: HandOffInFleet = lambda goal, sessions: ""
) -> str:
    """Return what a hook of a harness prints, for its standard input; empty for nothing.

    `hand_off_in_fleet` hands off the agent of the fleet that calls, and says so; empty where
    none does. Nothing that goes wrong is raised but UsageError for a harness without hooks: a
    hook that fails would let the command through to the model.
    """
    harness = harnesses.get_harness(name)
    integration = harnesses.get_integration(harness)
    if integration is None:
        raise UsageError(f"tasuki has no hooks for {harness.title}.")
    call = integration.parse_hook_call(decode_payload(payload))
    if call is None or call.kind == "status":
        return ""
    call = drop_impossible_paths(call)
    try:
        loaded = config.load_with_sources(Path(find_folder(call)))
        if call.kind in COMPACTION_KINDS:
            from tasuki.compaction.hook import answer_compaction

            answer = answer_compaction(harness, call, loaded)
        elif call.kind == "handoff":
            answer = _hand_off(harness, call, loaded, hand_off_in_fleet)
        else:
            try:
                answer = HookAnswer(suggest_at_turn_end(harness, call, integration, loaded))
            finally:
                start_work(name, call.path, loaded.settings)
    except TasukiError as error:
        answer = HookAnswer(f"{error}", blocked=True)
    # A hook is a boundary: the agent goes on, and the user sees the error.
    except Exception as error:
        answer = HookAnswer(
            f"tasuki failed: {type(error).__name__}: {error}. The thread was not changed. "
            "In a terminal: tasuki handoff",
            blocked=True,
        )
    if call.kind in COMPACTION_KINDS and not answer.context:
        return ""
    if call.kind == "turn" and answer.blocked:
        memory = ThreadMemory(harness.name, call.thread_id or call.path)  # Once for a thread.
        answer = HookAnswer(answer.message if memory.is_first("problem") else "")
    return integration.format_answer(call, answer)


def work_after_turn(name: str, payload: bytes) -> None:
    """Do the work after a turn, for the standard input of its hook, in this process."""
    integration = harnesses.get_integration(harnesses.get_harness(name))
    call = integration.parse_hook_call(decode_payload(payload)) if integration else None
    if call is not None and call.kind == "turn":
        do_work(name, drop_impossible_paths(call).path)


def decode_payload(payload: bytes) -> Mapping[str, Any]:
    """Decode the standard input of a hook; empty where that is no JSON object."""
    try:
        decoded_json = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return decoded_json if isinstance(decoded_json, dict) else {}


def drop_impossible_paths(call: HookCall) -> HookCall:
    """Return a call whose path and folder are empty where no file can have such a name."""
    path, cwd = (text if is_possible(text) else "" for text in (call.path, call.cwd))
    return replace(call, path=path, cwd=cwd)


# -- the command -----------------------------------------------------------------------


def _hand_off(
    harness: Harness, call: HookCall, loaded: LoadedSettings, hand_off_in_fleet: HandOffInFleet
) -> HookAnswer:
    """Begin the handoff that the user asked for; return what they read."""
    from tasuki.draft.goal import check_goal

    cwd = find_folder(call)
    # Half a surrogate pair is no character.
    goal = call.text.encode("utf-8", "replace").decode()
    is_outside = goal.startswith(f"{OUTSIDE_FLAG} ")
    words = goal.removeprefix(OUTSIDE_FLAG).lstrip() if is_outside else goal
    check_goal(words, min_length=loaded.settings.min_goal_length)
    if goal == words and (message := hand_off_in_fleet(goal, [call.thread_id, call.path])):
        return HookAnswer(message, blocked=True)
    goal, path = words, wait_for_thread(call.path)
    if os.environ.get("TMUX"):
        try:
            return HookAnswer(_open_in_window(path, goal, cwd, loaded), blocked=True)
        except LaunchFailed as error:
            message = _draft_here(harness, path, goal, loaded)
            return HookAnswer(f"{message}\n(No tmux window: {error})", blocked=True)
    return HookAnswer(_draft_here(harness, path, goal, loaded), blocked=True)


def _open_in_window(path: Path, goal: str, cwd: str, loaded: LoadedSettings) -> str:
    """Show the draft in a new window of tmux; the goal goes there in its own file."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="tasuki-goal-")
    file = os.path.join(folder, "goal")
    with open(file, "w", encoding="utf-8", newline="") as stream:
        stream.write(goal)
    arguments = ("handoff", OUTSIDE_FLAG, "--from", str(path), "--goal-file", file)
    try:
        place = open_window(arguments, cwd, loaded, folder)
    except BaseException:
        os.unlink(file)
        os.rmdir(folder)
        raise
    return f"Review the handoff in the {place}, and start the next session there."


def _draft_here(harness: Harness, path: Path, goal: str, loaded: LoadedSettings) -> str:
    """Make the draft here and keep it; return what the user reads."""
    from tasuki import handoffs

    if message := handoffs.describe_secrets(goal):
        raise GoalHasSecret(f"{message} Remove it, or hand off in a terminal: tasuki handoff")
    id = create_draft(harness, path, goal, loaded)
    return f"Handoff {id} is drafted. Review and start it in another terminal: tasuki start {id}"


# -- the status line -------------------------------------------------------------------


def build_status_line(name: str, payload: bytes) -> str:
    """Build the part of a status line: context use, and from the threshold on how to hand off."""
    integration = harnesses.get_integration(harnesses.get_harness(name))
    call = integration.parse_hook_call(decode_payload(payload)) if integration else None
    if integration is None or call is None or call.kind != "status":
        return ""
    call = drop_impossible_paths(call)
    memory = ThreadMemory(name, call.thread_id)
    if call.window:
        memory.note_window(call.window)
    settings = config.load_settings(Path(find_folder(call)))
    memory.note_settings(call.cwd, settings, integration)
    if call.used is None:
        if not (memory.folder / "most").exists():
            memory.note_most(START_PERCENT, call.window or 0, 0)
        return ""
    threshold = settings.suggest_at
    advice = f" · {integration.command}" if threshold and call.used >= threshold else ""
    return f"context {call.used:.0f} %{advice}"
