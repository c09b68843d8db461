"""The scripted harness itself: the terminal on one side, turns one after the other on the other."""

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from .actions import Failed, Interrupted, Turn
from .hooks import Answer, Hooks
from .identity import VERSION, Arguments, SessionFile, new_id, thread_path
from .input_line import InputLine
from .journal import Journal
from .painting import View, paint, write
from .rules import Script
from .thread import ThreadFile

MODEL = "claude-opus-5-5"
WINDOW = 200_000
ENDS = ("/exit", "/quit")
"""Commands that are carried out at once, also while a turn goes on."""
COMMANDS = (*ENDS, "/clear", "/compact")
_COMMAND = re.compile(r"/[a-z][a-z-]*(?=\s|\Z)")


class Prompt:
    """A prompt on its way into a turn; one that was queued has run its hooks already."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.id = new_id()
        self.answers: list[Answer] | None = None
        self.asked = threading.Event()


class Program:
    """What goes on, shared by the two threads; `lock` is held while it is changed and drawn."""

    def __init__(self, arguments: Arguments, script: Script, journal: Journal) -> None:
        self.cwd = os.getcwd()
        self.arguments = arguments
        self.script = script
        self.journal = journal
        self.model = arguments.get("--model") or MODEL
        self.permission = arguments.get("--permission-mode") or "default"
        self.hooks = Hooks(self.cwd, arguments.get("--settings"), journal)
        self.file = SessionFile(self.cwd)
        self.view = View()
        self.view.permission = self.permission
        self.line = InputLine()
        self.lock = threading.RLock()
        self.work: queue.Queue[Prompt | str] = queue.Queue()
        self.broken = threading.Event()
        self.answered = threading.Event()
        self.background: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.written: list[str] = []
        self.contexts: list[str] = []
        self.prompt_id = ""
        self.used: float | None = None
        self.ended = threading.Lock()
        self.leave: Callable[[], None] = lambda: None
        """Puts the terminal back."""
        self.session = arguments.get("--resume", "-r", "--session-id") or new_id()
        self._begin(self.session)

    def _begin(self, session: str) -> None:
        """Another session: a thread of its own."""
        self.session = self.journal.session = session
        path = thread_path(session, self.cwd)
        self.thread = ThreadFile(path, session, self.cwd, self.model, self.permission)
        self.contexts, self.asked, self.written, self.used = [], [], [], None

    # -- what others see of it ---------------------------------------------------------

    def draw(self) -> None:
        """Draw the screen as things are."""
        with self.lock:
            self.view.text = self.line.shown
            paint(self.view)

    def say(self, mark: str, text: str) -> None:
        """Put something on the screen."""
        with self.lock:
            self.view.say(mark, text)
            self.draw()

    def busy(self, now: bool) -> None:
        """Work begins, or ends."""
        with self.lock:
            self.view.busy = now
            self.file.tell(self.session, "busy" if now else "idle")
            self.draw()

    def ask(self, text: str) -> None:
        """Ask the user, or with an empty text go on."""
        with self.lock:
            self.view.dialog = text
            self.file.tell(self.session, "waiting" if text else "busy", "permission prompt" if text else "")  # fmt: skip
            self.draw()

    def hook(self, event: str, matched: str, **more: Any) -> list[Answer]:
        """Run the hooks of an event, and wait for them."""
        return self.hook_inside({}, event, matched, **more)

    def hook_inside(
        self, env: dict[str, str], event: str, matched: str, **more: Any
    ) -> list[Answer]:
        """The same with other variables in the environment: a session inside this one."""
        return self.hooks.run(event, matched, self._common() | more, self._env() | env)

    def _common(self) -> dict[str, Any]:
        common = {"session_id": self.session, "transcript_path": self.thread.path, "cwd": self.cwd}
        return {**common, **({"prompt_id": self.prompt_id} if self.prompt_id else {}),
                "permission_mode": self.permission}  # fmt: skip

    def _env(self) -> dict[str, str]:
        return {
            "CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SESSION_ID": self.session, "CLAUDE_PID": str(os.getpid()),
            "CLAUDE_PROJECT_DIR": self.cwd,
        }  # fmt: skip

    def use(self, percent: float | None) -> None:
        """How full the context is from now on; the status line is told."""
        window = int(self.script.setting("window", WINDOW))
        self.used = percent
        self.thread.tokens = int(window * (percent or 0) / 100)
        usage = {"input_tokens": self.thread.tokens, "output_tokens": 0}
        payload = {
            **self._common(), "model": {"id": self.model, "display_name": "Scripted"}, "version": VERSION,
            "workspace": {"current_dir": self.cwd, "project_dir": self.cwd, "added_dirs": self.arguments.folders},
            "context_window": {
                "total_input_tokens": self.thread.tokens, "context_window_size": window,
                "current_usage": None if percent is None else usage, "used_percentage": percent,
                "remaining_percentage": None if percent is None else 100 - percent,
            },
        }  # fmt: skip
        line = self.hooks.status_line(payload, self._env())
        if line is not None:
            with self.lock:
                self.view.status_line = line
                self.draw()

    # -- its turns ---------------------------------------------------------------------

    def serve(self) -> None:
        """Take prompts and commands one after the other, for as long as it runs."""
        try:
            self._start("resume" if self.arguments.get("--resume", "-r") else "startup")
            while True:
                item = self.work.get()
                self.broken.clear()
                if isinstance(item, Prompt):
                    self._take(item)
                else:
                    self._command(item)
        except BaseException as error:
            self.journal.tell("error", error=repr(error))
            write(f"\r\n{error!r}\r\n".encode())
            os._exit(70)

    def _start(self, source: str) -> None:
        time.sleep(self.script.setting("start_delay", 0.0))
        self._session_start(source)
        self.use(self.used)
        with self.lock:
            self.view.ready = True
            self.file.tell(self.session, "idle")
            if self.arguments.prompt:
                self.submit(self.arguments.prompt)
            elif text := self.arguments.get("--prefill"):
                self.line.type(text)
            self.draw()
        self.journal.tell("ready")

    def _session_start(self, source: str) -> None:
        answers = self.hook("SessionStart", source, source=source, model=self.model)
        self.contexts += [text for answer in answers if (text := answer.context("SessionStart"))]

    def submit(self, text: str) -> None:
        """The user has pressed Enter: a prompt, a command, or something for the queue."""
        self.journal.tell("submitted", text=text)
        found = _COMMAND.match(text)
        if found and _is_users_own(found[0]):
            found = None  # a prompt, which hooks see as it was typed
        if found and found[0] not in COMMANDS:
            self.view.say("  ", f"Unknown command: {found[0]}")
        elif found and found[0] in ENDS:
            self.end("prompt_input_exit", 0)
        elif found:
            self.work.put(text)
        elif self.view.busy:
            self._queue(Prompt(text, "queued"))
        else:
            prompt = Prompt(text, "typed")
            self.prompt_id = prompt.id
            self.busy(True)
            self.work.put(prompt)

    def _queue(self, prompt: Prompt) -> None:
        """A prompt while it is busy. Its hooks run now, with the id of the turn that goes on."""

        def run_hooks() -> None:
            prompt.answers = self.hook("UserPromptSubmit", "", prompt=prompt.text)
            prompt.asked.set()

        self.journal.tell("queued", text=prompt.text)
        self.thread.queued("enqueue", prompt.text)
        self.view.queue = [*self.view.queue, prompt.text]
        self.work.put(prompt)
        threading.Thread(target=run_hooks, daemon=True).start()

    def _take(self, prompt: Prompt) -> None:
        """A prompt becomes a turn, unless a hook objects."""
        self.prompt_id = prompt.id
        if prompt.source == "queued":
            prompt.asked.wait()
            self.thread.queued("dequeue")
            self.view.queue = [text for text in self.view.queue if text != prompt.text]
        self.busy(True)
        if prompt.answers is None:
            prompt.answers = self.hook("UserPromptSubmit", "", prompt=prompt.text)
        if veto := next((answer.veto for answer in prompt.answers if answer.veto), ""):
            self.journal.tell("blocked", text=prompt.text)
            self.say("● ", f"UserPromptSubmit operation blocked by hook:\n{veto}")
            self.line.type(prompt.text)
        else:
            self._turn(prompt, [answer.context("UserPromptSubmit") for answer in prompt.answers])
        self.busy(bool(self.view.queue))

    def _turn(self, prompt: Prompt, contexts: list[str]) -> None:
        for event, texts in (("SessionStart", self.contexts), ("UserPromptSubmit", contexts)):
            for text in filter(None, texts):
                self.thread.context(event, text)
        self.thread.prompt(prompt.text, prompt.id, prompt.source)
        self.journal.tell("prompt", text=prompt.text, turn=prompt.id, context=self.contexts)
        self.say("❯ ", prompt.text)
        self.contexts = []
        turn = Turn(self, prompt.text, prompt.id, self.script.rule(prompt.text))
        self.asked.append(_first_line(prompt.text))
        try:
            turn.run()
        except Interrupted:
            self.thread.interrupted(prompt.id)
            self.journal.tell("interrupted", turn=prompt.id)
            self.say("  ⎿  ", "Interrupted · What should Claude do instead?")
            return
        except Failed as error:
            self.hook("StopFailure", "", error="unknown", last_assistant_message=str(error))
            return
        self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> None:
        if turn.ends_program:
            self.end("prompt_input_exit", 0)
        if self.used is not None:
            self.use(self.used)
        if turn.late:
            later = threading.Timer(turn.late, self.stop, (turn.words, turn.id))
            later.daemon = True
            later.start()
            return
        for _ in range(turn.stops):
            self.stop(turn.words, turn.id)

    def stop(self, words: str, turn: str = "") -> None:
        """Tell that a turn has ended."""
        self.hook("Stop", "", prompt_id=turn or self.prompt_id, stop_hook_active=False,
                  last_assistant_message=words, background_tasks=list(self.background),
                  session_crons=[])  # fmt: skip

    def compact(self, trigger: str, note: str) -> None:
        """Replace the conversation by a summary, unless a hook objects."""
        answers = self.hook("PreCompact", trigger, trigger=trigger, custom_instructions=note)
        if veto := next((answer.veto for answer in answers if answer.veto), ""):
            self.journal.tell("vetoed", reason=veto)
            self.say("● ", f"Compaction blocked by hook:\n{veto}")
            return
        summary = f"The user asked for: {'; '.join(self.asked)}."
        self.hook("SubagentStop", "", agent_id=new_id()[:16], agent_type="", stop_hook_active=False,
                  last_assistant_message=summary, background_tasks=[], session_crons=[])  # fmt: skip
        self.thread.compacted(trigger, summary, self.thread.tokens, 3000)
        self._session_start("compact")
        self.hook("PostCompact", trigger, trigger=trigger, compact_summary=summary)
        self.journal.tell("compacted", trigger=trigger)
        self.say("● ", "Compacted")
        self.use(5.0)

    def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        self.busy(True)
        if name == "/compact":
            self.compact("manual", rest)
        else:
            self.hook("SessionEnd", "clear", reason="clear")
            self.prompt_id = ""
            self._begin(new_id())
            self.view.said = []
            self._session_start("clear")
            self.journal.tell("cleared")
        self.busy(False)

    def end(self, reason: str, code: int) -> None:
        """End the program, once: hooks, the file that tells of it, the terminal."""
        self.ended.acquire()
        self.hook("SessionEnd", reason, reason=reason)
        self.file.remove()
        self.journal.tell("exit", reason=reason, code=code)
        self.leave()
        os._exit(code)


def _first_line(text: str) -> str:
    """The first line of a prompt; the mark of a paste is none."""
    lines = (line for line in text.split("\n") if line and not line.startswith("<pasted_content "))
    return next(lines, "")


def _is_users_own(command: str) -> bool:
    """Whether a command is one of the files that the user has for that: `/handoff`."""
    return os.path.isfile(os.path.expanduser(f"~/.claude/commands/{command[1:]}.md"))
