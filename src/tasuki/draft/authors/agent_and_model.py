"""The authors that are asked: the outgoing agent in a fork, and a language model.

The agent runs without a screen, and its thread is not changed. The model extracts from the
bounded view of the thread.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Literal

from msgspec.structs import replace

from tasuki.draft.authors import answer
from tasuki.draft.authors.author import AuthorReply, AuthorTask, AuthorTurn
from tasuki.draft.authors.thread_view import (
    RequestView,
    build_view,
    create_fence,
    format_entry_list,
)
from tasuki.draft.models.client import ModelClient, RequestTooLong
from tasuki.draft.models.providers import ModelEndpoint
from tasuki.draft.prompts import render_prompt
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import AuthorFailed, Cancelled, UsageError
from tasuki.harness.plans import explain_no_questions
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest, Harness
from tasuki.model import Thread
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display

MAX_OUTPUT = 8 << 20
"""Bytes of standard output, and of standard error, that are accepted."""
GRACE_SECONDS = 2.0
"""Seconds between asking a program to end and killing it."""
REMOVE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_TAIL_BYTES = 8_000
_MAX_WORDS = 300
_STOP_CODES = {-signal.SIGINT, -signal.SIGTERM, 130, 143}
"""Exit codes of a program that received a signal to stop."""
_TRACE = compile_pattern(
    r"^[ \t]*(?:Stack backtrace:|\d+: <unknown>|at .+[:)]\d*\)?)[ \t]*$\n?", re.MULTILINE
)
_WITHOUT_AGENT = "Draft without it: --author offline."


def ask_agent(
    harness: Harness, thread: Thread, question: str, *, schema: str = "", seconds: float
) -> AskAnswer:
    """Return the answer of a thread's agent; `schema` is a JSON Schema of the answer, as text.

    Raises AuthorFailed if the agent cannot be asked or gives no answer, Cancelled if the
    question was interrupted. A KeyboardInterrupt ends the program and is raised again.
    """
    _check_can_ask(harness, thread)
    with (
        TemporaryDirectory(prefix="tasuki-ask-", ignore_cleanup_errors=True) as folder,
        TemporaryFile() as out,
        TemporaryFile() as err,
    ):
        scratch = os.path.realpath(folder)
        request = AskRequest(thread=thread, question=question, scratch=scratch, schema=schema)
        try:
            plan = harness.ask(request)
        except UsageError as exc:
            raise AuthorFailed(str(exc)) from exc
        try:
            _write_plan_files(plan, Path(scratch))
            run = _AskProcess(plan, out, err)
        except OSError as exc:
            why = f"could not be asked: {exc.strerror or str(exc)}."
            raise AuthorFailed(f"{harness.title} {why} {_WITHOUT_AGENT}") from exc
        try:
            run.wait_for_end(time.monotonic() + seconds)
        finally:
            run.end_program()
            answer = _remove_leftovers(harness.parse_answer(run.read_output(), request), plan)
        return _check_answer(harness, answer, run, seconds)


def _check_can_ask(harness: Harness, thread: Thread) -> None:
    title = harness.title
    if not harness.can_ask:
        raise AuthorFailed(explain_no_questions(title))
    if not shutil.which(harness.program):
        why = f"is not installed here: no program `{harness.program}` on the PATH."
        raise AuthorFailed(f"{title} {why} {_WITHOUT_AGENT}")
    path = Path(thread.path)
    if not path.is_file() and not path.parent.is_file():
        raise AuthorFailed(f"{path} is gone: {title} cannot be asked about it. {_WITHOUT_AGENT}")


def _write_plan_files(plan: AskPlan, scratch: Path) -> None:
    for source, target in plan.copies:
        shutil.copyfile(source, _create_place(target, scratch))
    for existing, link in plan.links:
        _create_place(link, scratch).symlink_to(existing)
    for file in plan.files:
        path = _create_place(file.path, scratch)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with open(number, "w", encoding="utf-8", errors="replace") as out:
            out.write(file.content)


def _create_place(path: str, scratch: Path) -> Path:
    """Return a path below the scratch folder and create its folder; no link leads out of it."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if scratch not in place.parent.resolve().parents and place.parent.resolve() != scratch:
        raise OSError(f"{place} does not lie in {scratch}")
    return place


class _AskProcess:
    """A program that runs according to a plan. Raises OSError if it cannot be started."""

    def __init__(self, plan: AskPlan, out: IO[bytes], err: IO[bytes]) -> None:
        self.out, self.err = out, err
        self.stopped = ""
        """Why it was ended from here: `time` or `size`."""
        with _open_input(plan.stdin) as source:
            self.process = subprocess.Popen(
                plan.argv,
                cwd=plan.cwd,
                env=_build_environment(plan),
                stdin=source,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait_for_end(self, deadline: float) -> None:
        """Wait for the end, a moment of the monotonic clock, or the limit of output."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(min(_POLL_SECONDS, max(deadline - time.monotonic(), 0)))
            if max(os.fstat(f.fileno()).st_size for f in (self.out, self.err)) > MAX_OUTPUT:
                self.stopped = "size"
            elif self.process.returncode is None and time.monotonic() >= deadline:
                self.stopped = "time"
            if self.stopped or self.process.returncode is not None:
                return

    def end_program(self) -> None:
        """End the program, and all processes left in its group."""
        _send_signal(self.process.pid, signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        finally:
            _send_signal(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def read_output(self) -> str:
        """Return what it wrote to standard output, or an empty string if that was too much."""
        self.out.seek(0)
        whole = self.out.read(MAX_OUTPUT + 1)
        return whole.decode("utf-8", "replace") if len(whole) <= MAX_OUTPUT else ""

    def read_error_tail(self) -> str:
        """Return the end of what it wrote to standard error."""
        self.err.seek(max(os.fstat(self.err.fileno()).st_size - _TAIL_BYTES, 0))
        return self.err.read(_TAIL_BYTES).decode("utf-8", "replace")


@contextmanager
def _open_input(text: str) -> Iterator[IO[bytes]]:
    """Open a file with a text, positioned at its start."""
    if not text:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with TemporaryFile() as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        file.seek(0)
        yield file


def _build_environment(plan: AskPlan) -> dict[str, str]:
    """Return the user's own environment: the program needs its keys."""
    inherited = {name: value for name, value in os.environ.items() if name not in plan.unset}
    return {**inherited, **plan.env}


def _send_signal(group: int, number: int) -> None:
    # macOS raises the latter for ended processes.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _remove_leftovers(answer: AskAnswer, plan: AskPlan) -> AskAnswer:
    """Remove what the question left on disk; a failure becomes a note."""
    if not answer.remove:
        return answer
    nothing = subprocess.DEVNULL
    try:
        is_removed = subprocess.run(
            answer.remove, cwd=plan.cwd, env=_build_environment(plan), stdin=nothing, stdout=nothing,
            stderr=nothing, timeout=REMOVE_SECONDS, start_new_session=True, check=False,
        ).returncode == 0  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        is_removed = False
    if is_removed:
        return replace(answer, remove=())
    command = " ".join(answer.remove)
    return replace(answer, note=f"The question left something behind. Remove it with: {command}")


def _check_answer(
    harness: Harness, answer: AskAnswer, run: _AskProcess, seconds: float
) -> AskAnswer:
    """Return the answer, or raise the error that replaces it."""
    title, code = harness.title, run.process.returncode
    leftover_note = f" {answer.note}" if answer.note else ""
    if run.stopped == "time":
        limit = f"did not answer within {seconds:.0f} s, and was ended. Give it more time, or draft"
        raise AuthorFailed(f"{title} {limit} without it: --author offline.{leftover_note}")
    why = ""
    if run.stopped == "size":
        why = f"wrote more than {MAX_OUTPUT >> 20} MB, and was ended."
    elif answer.aborted or code in _STOP_CODES:
        raise Cancelled(f"The question to {title} was interrupted.{leftover_note}")
    elif answer.error:
        why = f"gave no answer: {_shorten_words(answer.error)}"
    elif code:
        complaint = _shorten_words(_TRACE.sub("", run.read_error_tail())) or "it printed nothing."
        why = f"ended with exit code {code}: {complaint}"
    elif not answer.text.strip():
        why = "gave no answer: there is no text in it."
    if why:
        raise AuthorFailed(f"{title} {why} {_WITHOUT_AGENT}{leftover_note}")
    return answer


def _shorten_words(text: str) -> str:
    """Return the end of what a program said, without secrets, on one line, with a full stop."""
    words = " ".join(Redactor().redact(clean_for_display(text)).split())
    if len(words) > _MAX_WORDS:
        words = "…" + words[-_MAX_WORDS:].partition(" ")[2]
    return words if not words or words[-1] in ".!?…" else f"{words}."


MAX_INVENTORY = 12_000
"""Characters of the facts in a question: the agent already has its thread in view."""


class AgentAsker:
    """Asks the agent of a thread, each time in a fork of it. `seconds` limits each answer."""

    name = "agent"

    def __init__(
        self,
        task: AuthorTask,
        harness: Harness,
        shape: Literal["structured", "markdown"],
        seconds: float,
    ) -> None:
        self.task = task
        self.harness = harness
        self.shape = shape
        self.seconds = seconds

    def build_opening(self) -> str:
        """Return the goal, the facts to choose from and the numbers of the entries."""
        task = self.task
        inventory = task.inventory.render_list(task.clean, MAX_INVENTORY)
        entries = format_entry_list(task.thread.entries, task.clean)
        variables = {"goal": task.clean(task.goal.text), "inventory": inventory, "entries": entries,
                 "fence": create_fence(inventory, entries)}  # fmt: skip
        limits = task.get_prompt_limits()
        if self.shape == "markdown":
            return render_prompt("agent_markdown", **variables, room=limits["room"])
        parts = {"rules": render_prompt("rules"), "form": render_prompt("form", **limits)}
        return render_prompt("agent", **variables, **parts)

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        """Return the answer to the last turn. A fork does not know the turn before it, so the question repeats that."""
        question = turns[0].text
        if len(turns) > 1:
            words = {"answer": turns[-2].text, "request": turns[-1].text}
            question = render_prompt("again", question=question, **words)
        thread = self.task.thread
        schema = json.dumps(answer.build_schema()) if self.shape == "structured" else ""
        said = ask_agent(self.harness, thread, question, schema=schema, seconds=self.seconds)
        model, counts = said.model or thread.model, (said.input_tokens, said.output_tokens)
        return AuthorReply(said.text, model, *counts, said.price, said.note)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    @property
    def first_whole(self) -> int:
        """Always 1: the agent has all that it ever had."""
        return 1


CHARACTERS_PER_TOKEN = 3
"""Fewer than the usual four: code and paths take more tokens than prose."""
RETRY_SHARES = (0.4, 0.15)
"""Shares of the room for the retries of a request that the endpoint found too long."""
FRAME_CHARACTERS = 1_000
"""Characters of a request around the goal, the facts and the thread."""


class ModelAsker:
    """Asks one model. `seconds` limits each answer."""

    name = "model"
    shape: Literal["structured", "markdown"] = "structured"

    def __init__(self, task: AuthorTask, endpoint: ModelEndpoint, seconds: float) -> None:
        self.task = task
        self.client = ModelClient(endpoint, seconds)
        self.view: RequestView | None = None
        self._room_share = 1.0
        form = render_prompt("form", **task.get_prompt_limits())
        self.system = render_prompt("system", rules=render_prompt("rules"), form=form)

    def build_opening(self) -> str:
        """Return the goal, and the facts and the thread in a fence, as far as the window allows."""
        task = self.task
        room = (self.client.endpoint.window - self.client.output) * CHARACTERS_PER_TOKEN
        room -= len(self.system) + len(task.goal.text) + FRAME_CHARACTERS
        room = int(room * self._room_share)
        inventory = task.inventory.render_list(task.clean, max(600, min(16_000, room // 4)))
        self.view = seen = build_view(task, max(400, room - len(inventory)))
        coverage = render_prompt("coverage_whole")
        if not seen.whole:
            coverage = render_prompt("coverage_part", first=seen.first)
        variables = {"goal": task.clean(task.goal.text), "inventory": inventory, "thread": seen.text,
                     "coverage": coverage, "fence": create_fence(seen.text, inventory)}  # fmt: skip
        return render_prompt("extract", **variables)

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        """The answer to the last turn; retry with less of the thread while that was too long."""
        for share in RETRY_SHARES:
            try:
                return self.client.ask(self.system, turns, answer.build_schema())
            except RequestTooLong:
                if self._room_share <= share:
                    continue
                self._room_share = share
                turns = [AuthorTurn("user", self.build_opening()), *turns[1:]]
        return self.client.ask(self.system, turns, answer.build_schema())

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    @property
    def first_whole(self) -> int:
        """The first entry that the request contains whole."""
        return 1 if self.view is None or self.view.whole else self.view.first
