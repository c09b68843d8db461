"""What a handoff is compared with: trivial briefs of its size, and the harness's own summary."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from tasuki.model import Entry, Thread
from tasuki_evals.continuation import metric
from tasuki_evals.continuation.cuts import ThreadCut

SEED = 20_260_101
MAX_OUTPUT = 400
"""Characters of a tool's output in a line of the last messages."""
MAX_MESSAGE = 2_000
"""Characters of one message there."""


def write_nothing(cut: ThreadCut, characters: int) -> str:
    """Return the empty handoff: 0 on every target, or the metric is broken."""
    return ""


def write_whole(cut: ThreadCut, characters: int) -> str:
    """Return the whole thread: 1.00 on every recall, or the metric is broken."""
    return metric.join_whole_text(cut.predecessor.entries)


def write_random_lines(cut: ThreadCut, characters: int) -> str:
    """Return lines of the thread drawn at random until the budget is full."""
    lines = [x for x in write_whole(cut, 0).split("\n") if x.strip()]
    create_random(cut).shuffle(lines)
    return _fit_lines(lines, characters)


def create_random(cut: ThreadCut) -> random.Random:
    """Return the random generator of one case: the same at every run."""
    return random.Random(f"{SEED}{cut.name}")  # noqa: S311


def write_last_messages(cut: ThreadCut, characters: int) -> str:
    """Return the newest messages and calls that fit, each shortened."""
    return _fit_newest(_list_newest(cut.predecessor.entries), characters)


def write_index(cut: ThreadCut, characters: int) -> str:
    """Return all files that were touched and all commands that were run, the newest first."""
    return _fit_lines(_list_index(cut.predecessor), characters)


def write_index_users_last(cut: ThreadCut, characters: int) -> str:
    """Return the index, then the user's newest messages, then the newest of all."""
    text, entries = write_index(cut, characters), cut.predecessor.entries
    users = (f"user: {e.text[:MAX_MESSAGE]}" for e in reversed(entries) if e.is_by_hand)
    text += "\n" + _fit_newest(users, (characters - len(text)) // 3)
    return text + "\n" + _fit_newest(_list_newest(entries), characters - len(text) - 1)


def write_native_summary(cut: ThreadCut, characters: int) -> str:
    """Return the harness's summary of the thread; there is none at a cut."""
    return cut.summary


BASELINES: dict[str, Callable[[ThreadCut, int], str]] = {
    "random": write_random_lines, "last": write_last_messages, "index": write_index,
    "index+users+last": write_index_users_last, "native summary": write_native_summary,
    "whole": write_whole, "empty": write_nothing,
}  # fmt: skip


def _list_newest(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in reversed(entries):
        call = entry.tool
        if call is None:
            yield f"{entry.kind}: {entry.text[:MAX_MESSAGE]}"
        else:
            yield f"{call.name}: {metric.join_input(call)[:MAX_MESSAGE]}\n{call.output[:MAX_OUTPUT]}"


def _list_index(thread: Thread) -> Iterator[str]:
    used = [metric.collect_used((entry,), thread.cwd) for entry in reversed(thread.entries)]
    yield from dict.fromkeys(command for one in used for command in sorted(one.commands))
    yield from dict.fromkeys(path for one in used for path in sorted(one.opened))


def _fit_lines(lines: Iterable[str], characters: int) -> str:
    """Return the first lines that fit; a line longer than the remaining room is skipped."""
    fitting: list[str] = []
    for line in lines:
        if len(line) + 1 <= characters:
            fitting.append(line)
            characters -= len(line) + 1
    return "\n".join(fitting)


def _fit_newest(newest: Iterable[str], characters: int) -> str:
    """Return the newest texts that fit, the oldest of them first."""
    fitting: list[str] = []
    for text in newest:
        if len(text) + 1 > characters:
            break
        fitting.append(text)
        characters -= len(text) + 1
    return "\n".join(reversed(fitting))
