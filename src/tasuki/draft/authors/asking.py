"""Asks the agent of a thread, without a screen; the thread itself is not touched.

The adapter says how (`Harness.ask`); this carries it out: a private scratch folder, the program in
a process group of its own, a limit of time and of output, and nothing left behind.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO

from msgspec.structs import replace

from tasuki.draft.redact import Redactor
from tasuki.errors import AuthorFailed, Cancelled, UsageError
from tasuki.harness.plans import why_not_asked
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest, Harness
from tasuki.model import Thread
from tasuki.plain import shown

MAX_OUTPUT = 8 << 20
"""Bytes of standard output, and of standard error, that are taken."""
GRACE = 2.0
"""Seconds between asking a program to end and ending it."""
REMOVE_SECONDS = 30.0
_STEP = 0.05
_TAIL = 8_000
_WORDS = 300
_STOPPED = {-signal.SIGINT, -signal.SIGTERM, 130, 143}
"""What a program ends with that was told to stop."""
_TRACE = re.compile(
    r"^[ \t]*(?:Stack backtrace:|\d+: <unknown>|at .+[:)]\d*\)?)[ \t]*$\n?", re.MULTILINE
)
_INSTEAD = "Draft without it: --author offline."


def ask(
    harness: Harness, thread: Thread, question: str, *, schema: str = "", seconds: float
) -> AskAnswer:
    """What the agent of a thread answers; `schema` is a JSON Schema of the answer, as text.

    Raises AuthorFailed if it cannot be asked or gives no answer, Cancelled if it was broken off.
    A KeyboardInterrupt ends the program and is raised again.
    """
    _check(harness, thread)
    with _scratch() as scratch, TemporaryFile() as out, TemporaryFile() as err:
        request = AskRequest(thread=thread, question=question, scratch=scratch, schema=schema)
        try:
            plan = harness.ask(request)
        except UsageError as exc:
            raise AuthorFailed(str(exc)) from exc
        try:
            _prepare(plan, Path(scratch))
            run = _Run(plan, out, err)
        except OSError as exc:
            why = exc.strerror or str(exc)
            raise AuthorFailed(f"{harness.title} could not be asked: {why}. {_INSTEAD}") from exc
        answer = AskAnswer()
        try:
            run.wait(time.monotonic() + seconds)
        finally:
            run.end()
            answer = harness.answered(run.output(), request)
            answer = _removed(answer, plan)
        return _judged(harness, answer, run, seconds)


def _check(harness: Harness, thread: Thread) -> None:
    """That there is a program to ask, and a thread to ask about."""
    title = harness.title
    if not harness.can_ask:
        raise AuthorFailed(why_not_asked(title))
    if not shutil.which(harness.program):
        raise AuthorFailed(
            f"{title} is not installed here: no program `{harness.program}` on the PATH. {_INSTEAD}"
        )
    path = Path(thread.path)
    if not path.is_file() and not path.parent.is_file():
        raise AuthorFailed(f"{path} is gone: {title} cannot be asked about it. {_INSTEAD}")


@contextmanager
def _scratch() -> Iterator[str]:
    """A folder that only the user may look into, removed in any case."""
    folder = os.path.realpath(mkdtemp(prefix="tasuki-ask-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(plan: AskPlan, scratch: Path) -> None:
    """Copies, links and files of a plan."""
    for source, target in plan.copies:
        shutil.copyfile(source, _place(target, scratch))
    for existing, link in plan.links:
        _place(link, scratch).symlink_to(existing)
    for file in plan.files:
        path = _place(file.path, scratch)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with open(number, "w", encoding="utf-8", errors="replace") as out:
            out.write(file.content)


def _place(path: str, scratch: Path) -> Path:
    """A path below the scratch folder, its folder made; no link leads out of it."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if scratch not in place.parent.resolve().parents and place.parent.resolve() != scratch:
        raise OSError(f"{place} does not lie in {scratch}")
    return place


class _Run:
    """A program that runs as a plan says. Raises OSError if it cannot be started."""

    def __init__(self, plan: AskPlan, out: IO[bytes], err: IO[bytes]) -> None:
        self.out, self.err = out, err
        self.stopped = ""
        """Why it was ended from here: `time` or `size`."""
        with _input(plan.stdin) as source:
            self.process = subprocess.Popen(
                plan.argv,
                cwd=plan.cwd,
                env=_environment(plan),
                stdin=source,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait(self, until: float) -> None:
        """Wait for the end, up to a moment of the monotonic clock and the limit of output."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(min(_STEP, max(until - time.monotonic(), 0)))
            if max(os.fstat(f.fileno()).st_size for f in (self.out, self.err)) > MAX_OUTPUT:
                self.stopped = "size"
            elif self.process.returncode is None and time.monotonic() >= until:
                self.stopped = "time"
            if self.stopped or self.process.returncode is not None:
                return

    def end(self) -> None:
        """End the program, and whatever it started and left behind in its group."""
        _signal(self.process.pid, signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)
        finally:
            _signal(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def output(self) -> str:
        """What it wrote to standard output, empty where that was too much."""
        self.out.seek(0)
        whole = self.out.read(MAX_OUTPUT + 1)
        return whole.decode("utf-8", "replace") if len(whole) <= MAX_OUTPUT else ""

    def complaint(self) -> str:
        """The end of what it wrote to standard error."""
        self.err.seek(max(os.fstat(self.err.fileno()).st_size - _TAIL, 0))
        return self.err.read(_TAIL).decode("utf-8", "replace")


@contextmanager
def _input(text: str) -> Iterator[IO[bytes]]:
    """A file to read a text from, at its beginning."""
    if not text:
        with open(os.devnull, "rb") as nothing:
            yield nothing
        return
    with TemporaryFile() as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        file.seek(0)
        yield file


def _environment(plan: AskPlan) -> dict[str, str]:
    """The user's own: the program needs its keys."""
    kept = {name: value for name, value in os.environ.items() if name not in plan.unset}
    return {**kept, **plan.env}


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of the ended
        os.killpg(group, number)


def _removed(answer: AskAnswer, plan: AskPlan) -> AskAnswer:
    """Take away what asking left behind; a failure becomes a note."""
    if not answer.remove:
        return answer
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            answer.remove, cwd=plan.cwd, env=_environment(plan), stdin=nothing, stdout=nothing,
            stderr=nothing, timeout=REMOVE_SECONDS, start_new_session=True, check=False,
        ).returncode == 0  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        done = False
    if done:
        return replace(answer, remove=())
    command = " ".join(answer.remove)
    return replace(answer, note=f"Asking left something behind. Take it away with: {command}")


def _judged(harness: Harness, answer: AskAnswer, run: _Run, seconds: float) -> AskAnswer:
    """The answer, or the error that there is instead of one."""
    title, code = harness.title, run.process.returncode
    behind = f" {answer.note}" if answer.note else ""
    if run.stopped == "time":
        limit = f"did not answer within {seconds:.0f} s, and was ended. Give it more time, or draft"
        raise AuthorFailed(f"{title} {limit} without it: --author offline.{behind}")
    if run.stopped == "size":
        why = f"wrote more than {MAX_OUTPUT >> 20} MB, and was ended"
        raise AuthorFailed(f"{title} {why}. {_INSTEAD}{behind}")
    if answer.aborted or code in _STOPPED:
        raise Cancelled(f"The question to {title} was broken off.{behind}")
    if answer.error:
        raise AuthorFailed(f"{title} gave no answer: {_words(answer.error)} {_INSTEAD}{behind}")
    if code:
        said = _words(_TRACE.sub("", run.complaint())) or "it said nothing."
        raise AuthorFailed(f"{title} ended with exit code {code}: {said} {_INSTEAD}{behind}")
    if not answer.text.strip():
        raise AuthorFailed(f"{title} gave no answer: there is no text in it. {_INSTEAD}{behind}")
    return answer


def _words(text: str) -> str:
    """The end of what a program said, without secrets, on one line, with a full stop."""
    words = " ".join(Redactor().redact(shown(text)).split())
    if len(words) > _WORDS:
        words = "…" + words[-_WORDS:].partition(" ")[2]
    return words if not words or words[-1] in ".!?…" else f"{words}."
