"""Plans that several harnesses share: the whole brief as the first prompt, and how to ask."""

import os
from collections.abc import Callable
from typing import NoReturn

from tasuki.errors import UsageError
from tasuki.harness.protocol import AskRequest, LaunchPlan, LaunchRequest

MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux allows 128 KiB."""
CUT_OFF = "the answer was cut off at the model's limit of output"
"""Why an answer that ends in the middle is none."""


def with_brief(
    program: str,
    title: str,
    request: LaunchRequest,
    *,
    ready: str,
    argument: Callable[[str], tuple[str, ...]],
) -> LaunchPlan:
    """The brief as an argument where it is to be sent at once, else an unsent paste.

    The model, where one is named, goes in front as `--model NAME`. `argument` turns a prompt into
    the arguments that send it; `ready` matches the screen once the program takes input.
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


def none(title: str) -> LaunchPlan:
    """The plan of a harness that can start nothing: always a UsageError."""
    raise UsageError(
        f"{title} threads can only be read; no successor can be started there. "
        "Name another harness: --to claude, --to codex, --to pi."
    )


def not_asked(title: str) -> NoReturn:
    """What a harness does whose agents cannot be asked: always a UsageError."""
    raise UsageError(why_not_asked(title))


def why_not_asked(title: str) -> str:
    """Why the agents of a harness cannot be asked, in a sentence."""
    return (
        f"{title} cannot be asked about a thread without changing it. "
        "Draft without it: --author offline."
    )


def ask_place(request: AskRequest) -> str:
    """Where a program that is asked runs: in the thread's folder, else in the scratch folder."""
    cwd = request.thread.cwd
    return cwd if os.path.isabs(cwd) and os.path.isdir(cwd) else request.scratch
