"""Plans that several harnesses share: the whole brief as the first prompt, and how to ask."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tasuki.errors import UsageError
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    CallerIdentity,
    LaunchPlan,
    LaunchRequest,
)

MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux allows 128 KiB."""
CUT_OFF = "the answer was cut off at the model's limit of output"
"""Why an answer that ends in the middle does not count."""


def plan_with_brief(
    program: str,
    title: str,
    request: LaunchRequest,
    *,
    ready: str,
    argument: Callable[[str], tuple[str, ...]],
) -> LaunchPlan:
    """Plan the brief as an argument where it is to be sent at once, else as an unsent paste.

    The model, where one is named, goes in front as `--model NAME`. `argument` turns a prompt
    into the arguments that send it; `ready` matches the screen once the program takes input.
    """
    text = request.brief
    model = ("--model", request.model) if request.model else ()
    as_argument = request.send and len(text.encode()) <= MAX_ARGUMENT
    why = (
        "The brief is too long for an argument"
        if request.send
        else f"{title} cannot start with an unsent prompt"
    )
    return LaunchPlan(
        argv=(program, *model, *request.arguments, *(argument(text) if as_argument else ())),
        cwd=request.cwd,
        paste="" if as_argument else text,
        submit=request.send and not as_argument,
        ready=ready,
        note="" if as_argument else f"{why}: it is pasted into the input.",
    )


def refuse_start(title: str) -> LaunchPlan:
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


def choose_ask_folder(request: AskRequest) -> str:
    """Return where a program that is asked runs: the thread's folder, else the scratch folder."""
    cwd = request.thread.cwd
    return cwd if os.path.isabs(cwd) and os.path.isdir(cwd) else request.scratch


class ReadOnlyHarness:
    """What is the same for all harnesses whose threads can only be read."""

    title: str
    can_start = False
    can_prefill = False
    can_ask = False
    caller = CallerIdentity()

    def format_skill_command(self, skill: str) -> str:
        return ""

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return ()

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return refuse_start(self.title)

    def ask(self, request: AskRequest) -> AskPlan:
        refuse_question(self.title)

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        refuse_question(self.title)

    def get_integration(self) -> None:
        """Return None: nothing is added to it."""

    def get_control(self) -> None:
        """Return None: it is not run in a fleet."""
