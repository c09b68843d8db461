"""What harnesses share: plans to start and ask them, and how their agents run in a fleet."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.harness import protocol
from tasuki.harness.optional import ThreadPart
from tasuki.harness.typed_text import read_marked_choice

MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux allows 128 KiB."""
TOO_LONG = "The brief is too long to be sent: it is pasted into the input. Press Enter there."
CUT_OFF = "the answer was cut off at the model's limit of output"
"""Why an answer that ends in the middle does not count."""


class AnswerUsage(Struct):
    """Tokens, as several programs report them with an answer."""

    input_tokens: int = 0
    output_tokens: int = 0


class AnswerError(Struct):
    """Why there is no answer, as several programs report it."""

    message: str = ""


def plan_with_brief(
    program: str,
    title: str,
    request: protocol.LaunchRequest,
    *,
    ready: str,
    argument: Callable[[str], tuple[str, ...]],
    prefill: Callable[[str], tuple[str, ...]] | None = None,
) -> protocol.LaunchPlan:
    """Plan the brief as an argument where it is to be sent at once and fits, else as an unsent paste.

    The model, where one is named, goes in front as `--model NAME`. `argument` turns a prompt
    into the arguments that send it, `prefill` into those that place it in the input; `ready`
    matches the screen once the program takes input.
    """
    text = request.brief
    model = ("--model", request.model) if request.model else ()
    place = argument if request.send else prefill
    words = place(text) if place and len(text.encode()) <= MAX_ARGUMENT else ()
    why = f"{title} starts empty; the brief is pasted into its input. Press Enter there to send it."
    why = TOO_LONG if request.send else "" if prefill else why
    return protocol.LaunchPlan(
        argv=(program, *model, *request.arguments, *words),
        cwd=request.cwd,
        paste="" if words else text,
        ready=ready,
        note="" if words else why,
    )


def refuse_start(title: str) -> protocol.LaunchPlan:
    """Raise UsageError for a harness that cannot start a successor."""
    raise UsageError(
        f"{title} threads can only be read; no successor can be started there. "
        "Name another harness: --to claude, --to codex, --to pi."
    )


def refuse_question(title: str) -> NoReturn:
    """Raise UsageError for a harness whose agents cannot be asked."""
    raise UsageError(explain_no_questions(title))


def explain_no_questions(title: str) -> str:
    """Explain in a sentence why the agents of a harness cannot be asked."""
    return (
        f"{title} cannot be asked about a thread without changing it. "
        "Draft without it: --author offline."
    )


def choose_ask_folder(request: protocol.AskRequest) -> str:
    """Return where a program that is asked runs: the thread's folder, else the scratch folder."""
    cwd = request.thread.cwd
    return cwd if os.path.isabs(cwd) and os.path.isdir(cwd) else request.scratch


class UnaskableHarness:
    """What is the same for harnesses whose agents cannot be asked about a thread."""

    title: str
    can_ask = False

    def ask(self, request: protocol.AskRequest) -> NoReturn:
        refuse_question(self.title)

    def parse_answer(self, output: str, request: protocol.AskRequest) -> NoReturn:
        refuse_question(self.title)


class ReadOnlyHarness(UnaskableHarness):
    """What is the same for all harnesses whose threads can only be read."""

    can_start = False
    can_prefill = False
    caller = protocol.CallerIdentity()

    def format_skill_command(self, skill: str) -> str:
        return ""

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return ()

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List nothing to keep: only the user deletes a file of their project. A program with a store overrides it."""
        return ()

    def plan(self, request: protocol.LaunchRequest) -> protocol.LaunchPlan:
        return refuse_start(self.title)

    def get_integration(self) -> Any:
        """Return None: nothing is added to it."""

    def get_control(self) -> Any:
        """Return None: it is not run in a fleet."""


FLEET_MARK = "tasuki fleet"
"""Mark in everything that `tasuki install HARNESS --fleet` adds."""
TOKEN = "TASUKI_AGENT_TOKEN"  # noqa: S105 the name of a variable
"""Environment variable of an agent by which its hooks identify the agent."""


class BaseControl(protocol.AgentControl):
    """How agents of most harnesses are run; `tasuki.harness.protocol.AgentControl` explains it.

    `ready` matches the screen once the program takes input, `argument` turns a prompt into
    arguments, and `unset` are variables that the program must not inherit.
    """

    def __init__(
        self,
        program: str,
        ready: str,
        argument: Callable[[str], tuple[str, ...]],
        unset: tuple[str, ...] = (),
    ) -> None:
        self.program = program
        self.ready = ready
        self.argument = argument
        self.unset = unset

    def read_field(self, screenshot: protocol.Screenshot) -> protocol.ScreenField | None:
        """Read the choice that is marked, and the words in it."""
        return read_marked_choice(screenshot)

    def list_options(self, request: protocol.AgentRequest) -> tuple[str, ...]:
        """List the options of a start, in front of the operator's own arguments."""
        return ("--model", request.model) if request.model else ()

    def plan_start(self, request: protocol.AgentRequest) -> protocol.LaunchPlan:
        prompt = self.argument(request.prompt) if request.prompt else ()
        return protocol.LaunchPlan(
            argv=(self.program, *self.list_options(request), *request.arguments, *prompt),
            cwd=request.cwd,
            unset=self.unset,
            ready=self.ready,
        )


def build_fleet_hook(hook: str, harness: str) -> str:
    """Build the shell command of a hook: it passes its payload to tasuki's hook script, if that is there."""
    script = shlex.quote(hook)
    return f": {FLEET_MARK}; if [ -r {script} ]; then sh {script} {harness}; fi"
