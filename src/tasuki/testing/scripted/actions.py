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
context PERCENT           the context is that full from now on
compact                   it compacts itself, unless a hook objects
child_start ID, child_stop ID   a sub-agent starts, ends
background TEXT, background_done   a command goes on in the background, and ends
nested PROMPT             another session runs inside: its hooks have this one's environment
hook EVENT FIELDS         hooks of an event run, with fields of the payload replaced
no_stop, stop, stop_twice, late_stop S   how the end of the turn is told: not at all, early,
                          twice, S seconds after the screen shows it
fail TEXT                 the model's address answers with an error, which ends the turn
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

from .identity import new_id
from .rules import Rule, document

if TYPE_CHECKING:
    from .program import Program

POLL_SECONDS = 0.02


class Interrupted(Exception):
    """The user has broken the turn off."""


class Failed(Exception):
    """The model's address has answered with an error."""


class Turn:
    """One turn: the actions of its rule, and how its end is told."""

    def __init__(self, program: "Program", prompt: str, prompt_id: str, rule: Rule) -> None:
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
        """Carry the actions out. Raises Interrupted, Failed."""
        for action in self.actions:
            name, *words = [action] if isinstance(action, str) else action
            self.program.journal.tell("action", name=name)
            ACTIONS[name](self, *(self._filled(word) for word in words))
            self.check()

    def check(self) -> None:
        """Raises Interrupted once the user has broken the turn off."""
        if self.program.broken.is_set():
            raise Interrupted

    def wait(self, condition: Callable[[], bool], seconds: float = 86_400.0) -> None:
        """Wait for something, or for a time; the user may break it off."""
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            self.check()
            time.sleep(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))

    def _filled(self, word: Any) -> Any:
        if not isinstance(word, str):
            return word
        return re.sub(r"\{(\w+)\}", lambda found: self.fields.get(found[1], found[0]), word)


def _say(turn: Turn, text: str) -> None:
    turn.words = text
    turn.program.thread.answered({"type": "text", "text": text}, ends=True)
    turn.program.say("● ", text)


def _write(turn: Turn, path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        _tool(
            turn,
            "Write",
            {"file_path": path, "content": text},
            f"Error: {error}",
            f"Error: {error}",
        )
        turn.program.journal.tell("write_failed", path=path, error=str(error))
        return
    told = {"type": "create", "filePath": path, "content": text, "structuredPatch": []}
    _tool(turn, "Write", {"file_path": path, "content": text}, f"File created successfully at: {path}", told)  # fmt: skip
    turn.program.written.append(path)
    turn.program.journal.tell("wrote", path=path, bytes=len(text.encode()))


def _append(turn: Turn, path: str, text: str, times: float, seconds: float) -> None:
    def grow() -> None:
        for _ in range(int(times)):
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            time.sleep(float(seconds))
        turn.program.journal.tell("appended", path=path)

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    threading.Thread(target=grow, daemon=True).start()
    turn.wait(lambda: os.path.exists(path), 5)


def _write_document(turn: Turn, path: str) -> None:
    before = turn.program.asked[:-1]  # the last one asks for this document
    _write(turn, path, document(turn.prompt, before, turn.program.written))


def _run(turn: Turn, command: str) -> None:
    done = subprocess.run(
        ("/bin/sh", "-c", command), cwd=turn.program.cwd, capture_output=True, text=True, check=False
    )  # fmt: skip
    told = {"stdout": done.stdout, "stderr": done.stderr, "interrupted": False}
    _tool(turn, "Bash", {"command": command}, done.stdout + done.stderr, told)


def _tool(turn: Turn, name: str, given: dict[str, Any], result: str, told: Any) -> None:
    """A call of a tool, with its hooks and its lines in the thread."""
    program = turn.program
    called: dict[str, Any] = {
        "tool_name": name,
        "tool_input": given,
        "tool_use_id": f"toolu_{new_id()[:8]}",
    }
    program.hook("PreToolUse", name, **called)
    program.thread.used(name, given, result, told, turn.id)
    program.hook("PostToolUse", name, **called, tool_response=told, duration_ms=1)
    program.say("● ", f"{name}({next(iter(given.values()))!s:.60})")


def _ask(turn: Turn, text: str) -> None:
    program = turn.program
    program.answered.clear()
    program.ask(text)
    program.hook(
        "Notification", "permission_prompt", message="Claude needs your permission",
        notification_type="permission_prompt",
    )  # fmt: skip
    try:
        turn.wait(program.answered.is_set)
    finally:
        program.ask("")


def _context(turn: Turn, percent: float) -> None:
    turn.program.use(float(percent))


def _child(turn: Turn, event: str, id: str) -> None:
    more: dict[str, Any] = {"agent_id": id, "agent_type": "Explore"}
    children = turn.program.background
    if event == "SubagentStart":
        children.append({"id": id, "type": "subagent", "status": "running", "description": id,
                         "agent_type": "Explore"})  # fmt: skip
    else:
        more |= {"stop_hook_active": False, "last_assistant_message": "done"}
        children[:] = [each for each in children if each["id"] != id]
    turn.program.hook(event, "Explore", **more)


def _background(turn: Turn, text: str) -> None:
    task = {"id": new_id()[:8], "type": "shell", "status": "running", "description": text}
    turn.program.background.append(task)


def _background_done(turn: Turn) -> None:
    turn.program.background.clear()


def _nested(turn: Turn, prompt: str) -> None:
    """A session of `claude -p` inside this one, as its hooks see it."""
    session = new_id()
    env = {"CLAUDE_CODE_SESSION_ID": session, "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}
    path = turn.program.thread.path.replace(turn.program.session, session)
    more = {"session_id": session, "transcript_path": path, "prompt_id": new_id()}
    ends = {"stop_hook_active": False, "last_assistant_message": "nested", "background_tasks": []}
    for event, fields in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": prompt}),
        ("Stop", ends),
        ("SessionEnd", {"reason": "other"}),
    ):
        turn.program.hook_inside(env, event, "", **more, **fields)


def _stops(turn: Turn, count: int) -> None:
    turn.stops = count


def _late_stop(turn: Turn, seconds: float) -> None:
    turn.late = float(seconds)


def _fail(turn: Turn, text: str) -> None:
    turn.program.thread.failed(text)
    turn.program.say("● ", text)
    raise Failed(text)


def _end(turn: Turn) -> None:
    turn.ends_program = True


def _crash(turn: Turn, code: int) -> None:
    turn.program.journal.tell("crash", code=int(code))
    os._exit(int(code))


def _kill(turn: Turn) -> None:
    turn.program.journal.tell("crash", code=-9)
    os.kill(os.getpid(), signal.SIGKILL)


ACTIONS: dict[str, Callable[..., None]] = {
    "say": _say,
    "write": _write,
    "append": _append,
    "document": _write_document,
    "run": _run,
    "sleep": lambda turn, seconds: turn.wait(lambda: False, float(seconds)),
    "wait_for": lambda turn, path: turn.wait(lambda: os.path.exists(path)),
    "touch": lambda turn, path: open(path, "a").close(),
    "ask": _ask,
    "context": _context,
    "compact": lambda turn: turn.program.compact("auto", ""),
    "child_start": lambda turn, id: _child(turn, "SubagentStart", id),
    "child_stop": lambda turn, id: _child(turn, "SubagentStop", id),
    "background": _background,
    "background_done": _background_done,
    "nested": _nested,
    "hook": lambda turn, event, fields: turn.program.hook(event, "", **fields),
    "no_stop": lambda turn: _stops(turn, 0),
    "stop": lambda turn: turn.program.stop(turn.words),
    "stop_twice": lambda turn: _stops(turn, 2),
    "late_stop": _late_stop,
    "fail": _fail,
    "exit": _end,
    "crash": _crash,
    "kill": _kill,
}
