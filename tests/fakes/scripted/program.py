"""The scripted harness itself: the terminal on one side, consecutive turns on the other."""

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from fakes.scripted.actions import ProgramTurn, TurnFailed, TurnInterrupted
from fakes.scripted.hooks import HookOutput, HookRunner
from fakes.scripted.identity import (
    VERSION,
    ProgramArguments,
    ProgramSessionFile,
    create_id,
    get_thread_path,
)
from fakes.scripted.input_line import InputLine
from fakes.scripted.journal import ProgramJournal
from fakes.scripted.rules import ScriptFile
from fakes.scripted.screen import ProgramView, paint, write_all
from fakes.scripted.thread import ScriptedThreadFile

MODEL = "claude-opus-5-5"
WINDOW = 200_000
EXIT_COMMANDS = ("/exit", "/quit")
"""Commands that are carried out at once, also during a turn."""
COMMANDS = (*EXIT_COMMANDS, "/clear", "/compact")
_COMMAND = re.compile(r"/[a-z][a-z-]*(?=\s|\Z)")


class ProgramPrompt:
    """A prompt that waits for its turn; the hooks of a queued one have already run."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.id = create_id()
        self.answers: list[HookOutput] | None = None
        self.asked = threading.Event()


class ScriptedProgram:
    """The state shared by the two threads; `lock` is held while it is changed and drawn."""

    def __init__(
        self, arguments: ProgramArguments, script: ScriptFile, journal: ProgramJournal
    ) -> None:
        self.cwd = os.getcwd()
        self.arguments = arguments
        self.script = script
        self.journal = journal
        self.model = arguments.get_option("--model") or MODEL
        self.permission = arguments.get_option("--permission-mode") or "default"
        self.hooks = HookRunner(self.cwd, arguments.get_option("--settings"), journal)
        self.file = ProgramSessionFile(self.cwd)
        self.view = ProgramView()
        self.view.permission = self.permission
        self.line = InputLine()
        self.lock = threading.RLock()
        self.work: queue.Queue[ProgramPrompt | str] = queue.Queue()
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
        self.session = arguments.get_option("--resume", "-r", "--session-id") or create_id()
        self._begin_session(self.session)

    def _begin_session(self, session: str) -> None:
        """Begin another session, with its own thread."""
        self.session = self.journal.session = session
        path = get_thread_path(session, self.cwd)
        self.thread = ScriptedThreadFile(path, session, self.cwd, self.model, self.permission)
        self.contexts, self.asked, self.written, self.used = [], [], [], None

    # -- output ------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the screen in its current state."""
        with self.lock:
            self.view.text = self.line.shown
            self.view.has_stash = self.line.stash is not None
            paint(self.view)

    def show_message(self, mark: str, text: str) -> None:
        """Put a message on the screen."""
        with self.lock:
            self.view.add_message(mark, text)
            self.draw()

    def set_busy(self, now: bool) -> None:
        """Set whether work is in progress."""
        with self.lock:
            self.view.busy = now
            self.file.write_status(self.session, "busy" if now else "idle")
            self.draw()

    def ask_user(self, text: str, what: str = "") -> None:
        """Ask the user; an empty text ends the question. With `what`, digits take choices."""
        with self.lock:
            self.view.dialog, self.view.what = text, what
            self.file.write_status(self.session, "waiting" if text else "busy", "permission prompt" if text else "")  # fmt: skip
            self.draw()

    def run_hooks(self, event: str, matched: str, **more: Any) -> list[HookOutput]:
        """Run the hooks of an event, and wait for them."""
        return self.run_nested_hooks({}, event, matched, **more)

    def run_nested_hooks(
        self, env: dict[str, str], event: str, matched: str, **more: Any
    ) -> list[HookOutput]:
        """Run hooks with other environment variables: a session inside this one."""
        return self.hooks.run_hooks(
            event, matched, self._build_payload() | more, self._build_environment() | env
        )

    def _build_payload(self) -> dict[str, Any]:
        common = {"session_id": self.session, "transcript_path": self.thread.path, "cwd": self.cwd}
        return {**common, **({"prompt_id": self.prompt_id} if self.prompt_id else {}),
                "permission_mode": self.permission}  # fmt: skip

    def _build_environment(self) -> dict[str, str]:
        return {
            "CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SESSION_ID": self.session, "CLAUDE_PID": str(os.getpid()),
            "CLAUDE_PROJECT_DIR": self.cwd,
        }  # fmt: skip

    def set_context_usage(self, percent: float | None) -> None:
        """Set how full the context is from now on, and update the status line."""
        window = int(self.script.get_setting("window", WINDOW))
        self.used = percent
        self.thread.tokens = int(window * (percent or 0) / 100)
        usage = {"input_tokens": self.thread.tokens, "output_tokens": 0}
        payload = {
            **self._build_payload(), "model": {"id": self.model, "display_name": "Scripted"}, "version": VERSION,
            "workspace": {"current_dir": self.cwd, "project_dir": self.cwd, "added_dirs": self.arguments.folders},
            "context_window": {
                "total_input_tokens": self.thread.tokens, "context_window_size": window,
                "current_usage": None if percent is None else usage, "used_percentage": percent,
                "remaining_percentage": None if percent is None else 100 - percent,
            },
        }  # fmt: skip
        line = self.hooks.run_status_line(payload, self._build_environment())
        if line is not None:
            with self.lock:
                self.view.status_line = line
                self.draw()

    # -- its turns ---------------------------------------------------------------------

    def serve(self) -> None:
        """Take prompts and commands one after the other, as long as it runs."""
        try:
            self._start_session(
                "resume" if self.arguments.get_option("--resume", "-r") else "startup"
            )
            while True:
                item = self.work.get()
                self.broken.clear()
                if isinstance(item, ProgramPrompt):
                    self._take_prompt(item)
                else:
                    self._run_command(item)
        except BaseException as error:
            self.journal.log_event("error", error=repr(error))
            write_all(f"\r\n{error!r}\r\n".encode())
            os._exit(70)

    def _start_session(self, source: str) -> None:
        time.sleep(self.script.get_setting("start_delay", 0.0))
        self._run_start_hooks(source)
        self.set_context_usage(self.used)
        with self.lock:
            self.view.ready = True
            self.file.write_status(self.session, "idle")
            if self.arguments.prompt:
                self.submit(self.arguments.prompt)
            elif text := self.arguments.get_option("--prefill"):
                self.line.type_text(text)
            self.draw()
        self.journal.log_event("ready")

    def _run_start_hooks(self, source: str) -> None:
        answers = self.run_hooks("SessionStart", source, source=source, model=self.model)
        self.contexts += [
            text for answer in answers if (text := answer.get_context("SessionStart"))
        ]

    def submit(self, text: str) -> None:
        """Handle Enter by the user: a prompt, a command, or something for the queue."""
        self.journal.log_event("submitted", text=text)
        found = _COMMAND.match(text)
        if found and _is_user_command(found[0]):
            found = None  # a prompt, which hooks get as it was typed
        if found and found[0] not in COMMANDS:
            self.view.add_message("  ", f"Unknown command: {found[0]}")
        elif found and found[0] in EXIT_COMMANDS:
            self.end_program("prompt_input_exit", 0)
        elif found:
            self.work.put(text)
        elif self.view.busy:
            self._queue_prompt(ProgramPrompt(text, "queued"))
        else:
            prompt = ProgramPrompt(text, "typed")
            self.prompt_id = prompt.id
            self.set_busy(True)
            self.work.put(prompt)

    def _queue_prompt(self, prompt: ProgramPrompt) -> None:
        """Queue a prompt while it is busy.

        Its hooks run now, with the id of the current turn.
        """

        def run_hooks() -> None:
            prompt.answers = self.run_hooks("UserPromptSubmit", "", prompt=prompt.text)
            prompt.asked.set()

        self.journal.log_event("queued", text=prompt.text)
        self.thread.record_queue("enqueue", prompt.text)
        self.view.queue = [*self.view.queue, prompt.text]
        self.work.put(prompt)
        threading.Thread(target=run_hooks, daemon=True).start()

    def _take_prompt(self, prompt: ProgramPrompt) -> None:
        """Run a prompt as a turn, unless a hook objects."""
        self.prompt_id = prompt.id
        if prompt.source == "queued":
            prompt.asked.wait()
            self.thread.record_queue("dequeue")
            self.view.queue = [text for text in self.view.queue if text != prompt.text]
        self.set_busy(True)
        if prompt.answers is None:
            prompt.answers = self.run_hooks("UserPromptSubmit", "", prompt=prompt.text)
        if veto := next((answer.veto for answer in prompt.answers if answer.veto), ""):
            self.journal.log_event("blocked", text=prompt.text)
            self.show_message("● ", f"UserPromptSubmit operation blocked by hook:\n{veto}")
            self.line.type_text(prompt.text)
        else:
            self._run_turn(
                prompt, [answer.get_context("UserPromptSubmit") for answer in prompt.answers]
            )
        self.set_busy(bool(self.view.queue))

    def _run_turn(self, prompt: ProgramPrompt, contexts: list[str]) -> None:
        for event, texts in (("SessionStart", self.contexts), ("UserPromptSubmit", contexts)):
            for text in filter(None, texts):
                self.thread.record_context(event, text)
        self.thread.record_prompt(prompt.text, prompt.id, prompt.source)
        self.journal.log_event("prompt", text=prompt.text, turn=prompt.id, context=self.contexts)
        self.show_message("❯ ", prompt.text)
        self.contexts = []
        turn = ProgramTurn(self, prompt.text, prompt.id, self.script.choose_rule(prompt.text))
        self.asked.append(_get_first_line(prompt.text))
        try:
            turn.run()
        except TurnInterrupted:
            self.thread.record_interruption(prompt.id)
            self.journal.log_event("interrupted", turn=prompt.id)
            self.show_message("  ⎿  ", "Interrupted · What should Claude do instead?")
            return
        except TurnFailed as error:
            self.run_hooks("StopFailure", "", error=error.name, last_assistant_message=str(error))
            return
        self._end_turn(turn)

    def _end_turn(self, turn: ProgramTurn) -> None:
        if turn.ends_program:
            self.end_program("prompt_input_exit", 0)
        if self.used is not None:
            self.set_context_usage(self.used)
        if turn.late:
            later = threading.Timer(turn.late, self.report_stop, (turn.words, turn.id))
            later.daemon = True
            later.start()
            return
        for _ in range(turn.stops):
            self.report_stop(turn.words, turn.id)

    def report_stop(self, words: str, turn: str = "") -> None:
        """Report that a turn has ended."""
        self.run_hooks("Stop", "", prompt_id=turn or self.prompt_id, stop_hook_active=False,
                  last_assistant_message=words, background_tasks=list(self.background),
                  session_crons=[])  # fmt: skip

    def compact(self, trigger: str, note: str) -> None:
        """Replace the conversation by a summary, unless a hook objects."""
        answers = self.run_hooks("PreCompact", trigger, trigger=trigger, custom_instructions=note)
        if veto := next((answer.veto for answer in answers if answer.veto), ""):
            self.journal.log_event("vetoed", reason=veto)
            self.show_message("● ", f"Compaction blocked by hook:\n{veto}")
            return
        summary = f"The user asked for: {'; '.join(self.asked)}."
        self.run_hooks("SubagentStop", "", agent_id=create_id()[:16], agent_type="", stop_hook_active=False,
                  last_assistant_message=summary, background_tasks=[], session_crons=[])  # fmt: skip
        self.thread.record_compaction(trigger, summary, self.thread.tokens, 3000)
        self._run_start_hooks("compact")
        self.run_hooks("PostCompact", trigger, trigger=trigger, compact_summary=summary)
        self.journal.log_event("compacted", trigger=trigger)
        self.show_message("● ", "Compacted")
        self.set_context_usage(5.0)

    def _run_command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        self.set_busy(True)
        if name == "/compact":
            self.compact("manual", rest)
        else:
            self.run_hooks("SessionEnd", "clear", reason="clear")
            self.prompt_id = ""
            self._begin_session(create_id())
            self.view.said = []
            self._run_start_hooks("clear")
            self.journal.log_event("cleared")
        self.set_busy(False)

    def end_program(self, reason: str, code: int) -> None:
        """End the program, once: hooks, its session file, the terminal."""
        self.ended.acquire()
        self.run_hooks("SessionEnd", reason, reason=reason)
        self.file.remove()
        self.journal.log_event("exit", reason=reason, code=code)
        self.leave()
        os._exit(code)


def _get_first_line(text: str) -> str:
    """Return the first line of a prompt; the mark of a paste does not count."""
    lines = (line for line in text.split("\n") if line and not line.startswith("<pasted_content "))
    return next(lines, "")


def _is_user_command(command: str) -> bool:
    """Return whether a command is one of the user's own command files: `/handoff`."""
    return os.path.isfile(os.path.expanduser(f"~/.claude/commands/{command[1:]}.md"))
