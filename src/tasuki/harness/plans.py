"""Plans that several harnesses share: the whole brief as the first prompt."""

from collections.abc import Callable

from tasuki.errors import UsageError
from tasuki.harness.protocol import LaunchPlan, LaunchRequest

MAX_ARGUMENT = 100_000
"""Bytes of one argument; Linux allows 128 KiB."""


def with_brief(
    program: str,
    title: str,
    request: LaunchRequest,
    *,
    ready: str,
    argument: Callable[[str], tuple[str, ...]],
) -> LaunchPlan:
    """The brief as an argument where it is to be sent at once, else an unsent paste.

    The model, where one is named, goes in front as `--model NAME`. `argument` turns a prompt into the arguments that send it; `ready` matches the screen once the
    program takes input.
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
