"""What can happen in a turn of the scripted harness, as actions of a script.

say TEXT                  the agent says something; the last thing said is its last message
write FILE TEXT           a file is written by a tool
append FILE TEXT TIMES S  it is appended to, TIMES times every S seconds, also after the turn
document FILE             a good handoff document is written
run COMMAND               a command is run by a tool
sleep S                   nothing happens for a while
wait_for FILE             the turn goes on once the file is there
touch FILE                an empty file is made, for a test to see
ask TEXT                  the user is asked for permission, and the turn waits for the answer
permit COMMAND WHAT       the same for a command, whose hook reports it; a digit takes a choice
context PERCENT           the context is that full from now on
compact                   it compacts itself, unless a hook objects
child_start ID, child_stop ID   a sub-agent starts, ends
background TEXT, background_done   a command goes on in the background, and ends
nested PROMPT             another session runs inside: its hooks have this one's environment
hook EVENT FIELDS         hooks of an event run, with fields of the payload replaced
no_stop, stop, stop_twice, late_stop S   how the end of the turn is told: not at all, early,
                          twice, S seconds after the screen shows it
fail TEXT                 the model's address answers with an error, which ends the turn
limit TEXT S              the account is at its usage limit, which resets in S seconds if that is given
exit                      the program ends as by /exit
crash CODE, kill          it ends at once with a status, by SIGKILL
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fakes.scripted.identity import create_id
from fakes.scripted.rules import PromptRule, build_document

if TYPE_CHECKING:
    from fakes.scripted.program import ScriptedProgram

POLL_SECONDS = 0.02


class TurnInterrupted(Exception):
    """The user has interrupted the turn."""


class TurnFailed(Exception):
    """The model's address has answered with an error, which has a name."""

    def __init__(self, text: str, name: str = "unknown") -> None:
        super().__init__(text)
        self.name = name


class ProgramTurn:
    """One turn: the actions of its rule, and how its end is reported."""

    def __init__(
        self, program: "ScriptedProgram", prompt: str, prompt_id: str, rule: PromptRule
    ) -> None:
        self.program = program
        self.prompt = prompt
        self.id = prompt_id
        self.actions = rule.actions
        self.fields = {
            **rule.fields, "prompt": prompt, "session": program.session, "pid": str(os.getpid()),
            "cwd": program.cwd,
        }  # fmt: skip
        self.words = ""
        self.stops = 1
        self.late = 0.0
        self.ends_program = False

    def run(self) -> None:
        """Carry the actions out. Raises TurnInterrupted, TurnFailed."""
        for action in self.actions:
            name, *words = [action] if isinstance(action, str) else action
            self.program.journal.log_event("action", name=name)
            ACTIONS[name](self, *(self._fill_word(word) for word in words))
            self.check_interrupted()

    def check_interrupted(self) -> None:
        """Raise TurnInterrupted once the user has interrupted the turn."""
        if self.program.broken.is_set():
            raise TurnInterrupted

    def wait_for(self, condition: Callable[[], bool], seconds: float = 86_400.0) -> None:
        """Wait for a condition, or for a time; the user may interrupt it."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self.check_interrupted()
            time.sleep(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))

    def _fill_word(self, word: Any) -> Any:
        if not isinstance(word, str):
            return word
        return re.sub(r"\{(\w+)\}", lambda found: self.fields.get(found[1], found[0]), word)


def _run_say(turn: ProgramTurn, text: str) -> None:
    turn.words = text
    turn.program.thread.record_block({"type": "text", "text": text}, ends=True)
    turn.program.show_message("● ", text)


def _run_write(turn: ProgramTurn, path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        _record_tool(
            turn,
            "Write",
            {"file_path": path, "content": text},
            f"Error: {error}",
            f"Error: {error}",
        )
        turn.program.journal.log_event("write_failed", path=path, error=str(error))
        return
    tool_result = {"type": "create", "filePath": path, "content": text, "structuredPatch": []}
    _record_tool(turn, "Write", {"file_path": path, "content": text}, f"File created successfully at: {path}", tool_result)  # fmt: skip
    turn.program.written.append(path)
    turn.program.journal.log_event("wrote", path=path, bytes=len(text.encode()))


def _run_append(turn: ProgramTurn, path: str, text: str, times: float, seconds: float) -> None:
    def append_repeatedly() -> None:
        for _ in range(int(times)):
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            time.sleep(float(seconds))
        turn.program.journal.log_event("appended", path=path)

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    threading.Thread(target=append_repeatedly, daemon=True).start()
    turn.wait_for(lambda: os.path.exists(path), 5)


def _run_document(turn: ProgramTurn, path: str) -> None:
    before = turn.program.asked[:-1]  # the last one asks for this document
    _run_write(turn, path, build_document(turn.prompt, before, turn.program.written))


def _run_command(turn: ProgramTurn, command: str) -> None:
    done = subprocess.run(
        ("/bin/sh", "-c", command), cwd=turn.program.cwd, capture_output=True, text=True, check=False
    )  # fmt: skip
    tool_result = {"stdout": done.stdout, "stderr": done.stderr, "interrupted": False}
    _record_tool(turn, "Bash", {"command": command}, done.stdout + done.stderr, tool_result)


def _record_tool(
    turn: ProgramTurn, name: str, arguments: dict[str, Any], result: str, tool_result: Any
) -> None:
    """Record a call of a tool, with its hooks and its lines in the thread."""
    program = turn.program
    called: dict[str, Any] = {
        "tool_name": name,
        "tool_input": arguments,
        "tool_use_id": f"toolu_{create_id()[:8]}",
    }
    program.run_hooks("PreToolUse", name, **called)
    program.thread.record_tool(name, arguments, result, tool_result, turn.id)
    program.run_hooks("PostToolUse", name, **called, tool_response=tool_result, duration_ms=1)
    program.show_message("● ", f"{name}({next(iter(arguments.values()))!s:.60})")


def _run_ask(turn: ProgramTurn, text: str) -> None:
    program = turn.program
    program.answered.clear()
    program.ask_user(text)
    program.run_hooks(
        "Notification", "permission_prompt", message="Claude needs your permission",
        notification_type="permission_prompt",
    )  # fmt: skip
    try:
        turn.wait_for(program.answered.is_set)
    finally:
        program.ask_user("")


def _run_permit(turn: ProgramTurn, command: str, what: str) -> None:
    program = turn.program
    program.answered.clear()
    program.ask_user(command, what)
    arguments = {"command": command, "description": what}
    program.run_hooks("PermissionRequest", "Bash", tool_name="Bash", tool_input=arguments)
    program.run_hooks(
        "Notification", "permission_prompt", message="Claude needs your permission to use Bash",
        notification_type="permission_prompt",
    )  # fmt: skip
    try:
        turn.wait_for(program.answered.is_set)
    finally:
        program.ask_user("")


def _run_context(turn: ProgramTurn, percent: float) -> None:
    turn.program.set_context_usage(float(percent))


def _run_child(turn: ProgramTurn, event: str, id: str) -> None:
    more: dict[str, Any] = {"agent_id": id, "agent_type": "Explore"}
    children = turn.program.background
    if event == "SubagentStart":
        children.append({"id": id, "type": "subagent", "status": "running", "description": id,
                         "agent_type": "Explore"})  # fmt: skip
    else:
        more |= {"stop_hook_active": False, "last_assistant_message": "done"}
        children[:] = [each for each in children if each["id"] != id]
    turn.program.run_hooks(event, "Explore", **more)


def _run_background(turn: ProgramTurn, text: str) -> None:
    task = {"id": create_id()[:8], "type": "shell", "status": "running", "description": text}
    turn.program.background.append(task)


def _run_background_done(turn: ProgramTurn) -> None:
    turn.program.background.clear()


def _run_nested(turn: ProgramTurn, prompt: str) -> None:
    """Run a session of `claude -p` inside this one, as its hooks see it."""
    session = create_id()
    env = {"CLAUDE_CODE_SESSION_ID": session, "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}
    path = turn.program.thread.path.replace(turn.program.session, session)
    more = {"session_id": session, "transcript_path": path, "prompt_id": create_id()}
    ends = {"stop_hook_active": False, "last_assistant_message": "nested", "background_tasks": []}
    for event, fields in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": prompt}),
        ("Stop", ends),
        ("SessionEnd", {"reason": "other"}),
    ):
        turn.program.run_nested_hooks(env, event, "", **more, **fields)


def _set_stops(turn: ProgramTurn, count: int) -> None:
    turn.stops = count


def _set_late_stop(turn: ProgramTurn, seconds: float) -> None:
    turn.late = float(seconds)


def _run_fail(turn: ProgramTurn, text: str) -> None:
    turn.program.thread.record_failure(text)
    turn.program.show_message("● ", text)
    raise TurnFailed(text)


def _run_limit(turn: ProgramTurn, text: str, seconds: float | None = None) -> None:
    resets_at = None if seconds is None else int(time.time() + float(seconds))
    turn.program.thread.record_limit(text, resets_at)
    turn.program.show_message("● ", text)
    raise TurnFailed(text, "rate_limit")


def _run_exit(turn: ProgramTurn) -> None:
    turn.ends_program = True


def _run_crash(turn: ProgramTurn, code: int) -> None:
    turn.program.journal.log_event("crash", code=int(code))
    os._exit(int(code))


def _run_kill(turn: ProgramTurn) -> None:
    turn.program.journal.log_event("crash", code=-9)
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS: dict[str, Callable[..., None]] = {
    "say": _run_say,
    "write": _run_write,
    "append": _run_append,
    "document": _run_document,
    "run": _run_command,
    "sleep": lambda turn, seconds: turn.wait_for(lambda: False, float(seconds)),
    "wait_for": lambda turn, path: turn.wait_for(lambda: os.path.exists(path)),
    "touch": lambda turn, path: open(path, "a").close(),
    "ask": _run_ask,
    "permit": _run_permit,
    "context": _run_context,
    "compact": lambda turn: turn.program.compact("auto", ""),
    "child_start": lambda turn, id: _run_child(turn, "SubagentStart", id),
    "child_stop": lambda turn, id: _run_child(turn, "SubagentStop", id),
    "background": _run_background,
    "background_done": _run_background_done,
    "nested": _run_nested,
    "hook": lambda turn, event, fields: turn.program.run_hooks(event, "", **fields),
    "no_stop": lambda turn: _set_stops(turn, 0),
    "stop": lambda turn: turn.program.report_stop(turn.words),
    "stop_twice": lambda turn: _set_stops(turn, 2),
    "late_stop": _set_late_stop,
    "fail": _run_fail,
    "limit": _run_limit,
    "exit": _run_exit,
    "crash": _run_crash,
    "kill": _run_kill,
}
