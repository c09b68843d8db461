"""What a hook of a harness asks of tasuki, and what it is told.

The command is taken out of the prompts, so the model never sees it. In tmux a new window shows the
draft for review, and the successor starts beside it; elsewhere the draft is made and kept.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tasuki import config
from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.errors import GoalHasSecret, LaunchFailed, NothingToHandOff, TasukiError, UsageError
from tasuki.harness.integration import HookAnswer, HookCall, Integration
from tasuki.harness.protocol import Harness, LaunchPlan
from tasuki.paths import is_possible
from tasuki.session.ancestry import kept_back

AUTHOR_SECONDS = 100
"""Time limit of an author in a hook, which has a limit of its own."""
WRITTEN_SECONDS = 2.0
"""How long a thread is waited for that is being written."""
QUIET_SECONDS = 0.25
"""So long nothing was written to a thread that is whole."""
ANSWER_BYTES = 64 << 10
"""How far from the end of a thread its last answer is looked for; its own length comes on top."""
MAX_PAYLOAD = 64 << 20
OF_THE_AGENT = (
    "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_CHILD_NOTES_DIR", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR", "AI_AGENT", "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_PACKAGE_ROOT",
    "CODEX_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_CWD",
    "GEMINI_PLANS_DIR", "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID", "OPENCODE", "OPENCODE_PID",
    "COPILOT_CLI", "COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR", "COPILOT_HOOK_DIR",
    "COPILOT_LOADER_PID", "COPILOT_PROJECT_DIR",
)  # fmt: skip
"""Variables that an agent sets for what it starts; a successor that inherits them takes itself for
a part of the old session, and keeps no thread."""
OUTSIDE = "--no-fleet"
"""Before the goal: hand off to a successor that the fleet does not know."""
ByFleet = Callable[[str, Sequence[str]], str]
"""Takes a goal and names of the calling thread."""
IN_A_WINDOW = """\
folder=$1; shift
"$@"; code=$?
if [ -n "$folder" ]; then rm -f -- "$folder/goal"; rmdir -- "$folder"; fi
[ $code = 0 ] || { printf '\\n[Enter closes this window.] '; read -r line; }
exit $code"""
"""What runs in the new window: the review, and a moment to read why nothing was started."""


def answered(name: str, payload: bytes, by_fleet: ByFleet = lambda goal, sessions: "") -> str:
    """What a hook of a harness prints, for what it gave on standard input; empty for nothing.

    `by_fleet` hands off the agent of the fleet that calls, and says so; empty where none does.

    Nothing that goes wrong is raised but UsageError for a harness without hooks: a hook that fails
    would let the command through to the model.
    """
    harness = harnesses.get(name)
    made = harnesses.integration(harness)
    if made is None:
        raise UsageError(f"tasuki has no hooks for {harness.title}.")
    call = made.called(decoded(payload))
    if call is None or call.kind == "status":
        return ""
    call = with_possible_paths(call)
    try:
        answer = (
            _handed_off(harness, call, by_fleet)
            if call.kind == "handoff"
            else _turn(harness, call, made)
        )
    except TasukiError as error:
        answer = HookAnswer(f"{error}", blocked=True)
    except Exception as error:  # a hook is a boundary: the agent goes on, the user is told
        answer = HookAnswer(
            f"tasuki failed: {type(error).__name__}: {error}. The thread was not changed. "
            "In a terminal: tasuki handoff",
            blocked=True,
        )
    if call.kind == "turn" and answer.blocked:
        answer = HookAnswer(_said_once(harness, call, answer.said))
    return made.answer(call, answer)


def _said_once(harness: Harness, call: HookCall, problem: str) -> str:
    """A problem at the end of a turn: told once for a thread, not at every turn."""
    from tasuki.session.suggest import Memory

    return problem if Memory(harness.name, call.thread_id or call.path).first("problem") else ""


def decoded(payload: bytes) -> Mapping[str, Any]:
    """What a harness gave on standard input; nothing where that is no JSON object."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def with_possible_paths(call: HookCall) -> HookCall:
    """A call whose path and folder are empty where no file can have such a name."""
    path, cwd = (text if is_possible(text) else "" for text in (call.path, call.cwd))
    return replace(call, path=path, cwd=cwd)


def folder_of(call: HookCall) -> str:
    """The folder that a call is about, else our own: it may be gone."""
    return call.cwd if os.path.isdir(call.cwd) else os.getcwd()


def _turn(harness: Harness, call: HookCall, made: Integration) -> HookAnswer:
    from tasuki.session import suggest

    return HookAnswer(suggest.at_turn_end(harness, call, made))


# -- the command -----------------------------------------------------------------------


def _handed_off(harness: Harness, call: HookCall, by_fleet: ByFleet) -> HookAnswer:
    """Begin the handoff that the user asked for; what they are told."""
    from tasuki.draft.goal import check_goal

    cwd = folder_of(call)
    loaded = config.loaded(Path(cwd))
    goal = call.text.encode("utf-8", "replace").decode()  # half a pair is no character
    words = goal.removeprefix(OUTSIDE).lstrip() if goal.startswith(f"{OUTSIDE} ") else goal
    check_goal(words, min_length=loaded.settings.min_goal_length)
    if goal == words and (said := by_fleet(goal, [call.thread_id, call.path])):
        return HookAnswer(said, blocked=True)
    goal, path = words, written(call.path)
    if os.environ.get("TMUX"):
        try:
            return HookAnswer(_in_window(path, goal, cwd, loaded), blocked=True)
        except LaunchFailed as error:
            said = _drafted(harness, path, goal, loaded)
            return HookAnswer(f"{said}\n(No tmux window: {error})", blocked=True)
    return HookAnswer(_drafted(harness, path, goal, loaded), blocked=True)


def written(name: str, answer: str = "") -> Path:
    """The file of a thread once it holds the agent's last answer and nothing is being written to it.

    Agents write an answer some 100 ms after they show it, on a busy machine much later. Raises
    NothingToHandOff where there is no file: some make it with the first answer.
    """
    name = name if is_possible(name) else ""
    path, deadline = Path(name), time.monotonic() + WRITTEN_SECONDS
    holder = harnesses.file_of(path)
    while name and time.monotonic() < deadline:
        try:
            if time.time() - holder.stat().st_mtime > QUIET_SECONDS and _holds(holder, answer):
                return path
        except OSError:
            pass
        time.sleep(0.03)
    if name and holder.exists():
        return path
    raise NothingToHandOff("Nothing to hand off (no messages yet).")


def _holds(thread: Path, answer: str) -> bool:
    """Whether an answer stands behind the last words of the user in a thread of JSON lines."""
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


def _in_window(path: Path, goal: str, cwd: str, loaded: Loaded) -> str:
    """Show the draft in a new window of tmux; the goal goes there in a file of its own."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="tasuki-goal-")
    file = os.path.join(folder, "goal")
    with open(file, "w", encoding="utf-8", newline="") as stream:
        stream.write(goal)
    arguments = ("handoff", OUTSIDE, "--from", str(path), "--goal-file", file)
    try:
        where = open_window(arguments, cwd, loaded, folder)
    except BaseException:
        os.unlink(file)
        os.rmdir(folder)
        raise
    return f"The draft of the handoff is in a {where}: look at it there and start its successor."


def open_window(arguments: tuple[str, ...], cwd: str, loaded: Loaded, folder: str = "") -> str:
    """Run tasuki in a new window or popup of tmux; which of them, in words. Raises LaunchFailed.

    `folder` holds the file `goal`, and goes when tasuki has ended.
    """
    from tasuki import handoffs
    from tasuki.harness.install import own_command
    from tasuki.launch.tmux import start_in_tmux

    plan = LaunchPlan(
        argv=("sh", "-c", IN_A_WINDOW, "tasuki", folder, *own_command(), *arguments),
        cwd=cwd,
        env={k: v for k, v in kept_back().items() if k not in OF_THE_AGENT}
        | {handoffs.INSIDE: "1"},
        unset=OF_THE_AGENT,
        ready=r"\S",
    )
    if loaded.settings.review_in == "popup":
        from tasuki.launch.tmux import start_in_popup

        start_in_popup(plan)
        return "popup"
    start_in_tmux(plan, "handoff")
    return "new tmux window"


def _drafted(harness: Harness, path: Path, goal: str, loaded: Loaded) -> str:
    """Make the draft here and keep it; what the user is told."""
    from tasuki import handoffs

    if message := handoffs.secrets_in(goal):
        raise GoalHasSecret(f"{message} Take it out, or hand off in a terminal: tasuki handoff")
    id = draft(harness, path, goal, loaded)
    return f"Handoff {id} is drafted. Review and start it in another terminal: tasuki start {id}"


def draft(harness: Harness, path: Path, goal: str, loaded: Loaded, *, force: bool = False) -> str:
    """Make a draft and keep it; the beginning of its id."""
    from msgspec import structs

    from tasuki import handoffs
    from tasuki.draft.goal import check_goal
    from tasuki.vault import Vault

    settings = loaded.settings
    quick = structs.replace(settings, author_seconds=min(settings.author_seconds, AUTHOR_SECONDS))
    offer = handoffs.offer(
        harness,
        path,
        check_goal(goal, min_length=settings.min_goal_length, force=force),
        structs.replace(loaded, settings=quick),
        successor=harnesses.get(settings.to or harness.name),
        vault=Vault(),
        must_keep=True,
    )
    return offer.handoff.id[:8]
