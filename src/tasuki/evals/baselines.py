"""What a handoff is compared with: trivial briefs of the same size, and the harness's own summary."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from tasuki.evals import metric
from tasuki.evals.cuts import Cut
from tasuki.model import Entry, Thread

SEED = 20_260_101
OUTPUT = 400
"""Characters of a tool's output in a line of the last messages."""
MESSAGE = 2_000
"""Characters of one message there."""


def nothing(cut: Cut, characters: int) -> str:
    """The empty handoff: 0 on every target, or the metric is broken."""
    return ""


def whole(cut: Cut, characters: int) -> str:
    """The whole thread: 1.00 on every recall, or the metric is broken."""
    return metric.whole_text(cut.predecessor.entries)


def random_lines(cut: Cut, characters: int) -> str:
    """Lines of the thread drawn at random until the budget is full."""
    lines = [x for x in whole(cut, 0).split("\n") if x.strip()]
    drawn(cut).shuffle(lines)
    return _fitting(lines, characters)


def drawn(cut: Cut) -> random.Random:
    """The chance of one case: the same at every run."""
    return random.Random(f"{SEED}{cut.name}")  # noqa: S311


def last_messages(cut: Cut, characters: int) -> str:
    """The newest messages and calls that fit, each shortened."""
    return _in_order(_newest(cut.predecessor.entries), characters)


def index(cut: Cut, characters: int) -> str:
    """All files that were touched and all commands that were run, the newest first."""
    return _fitting(_index(cut.predecessor), characters)


def index_users_last(cut: Cut, characters: int) -> str:
    """The index, then the newest messages of the user, then the newest messages of all."""
    text = index(cut, characters)
    users = (f"user: {e.text[:MESSAGE]}" for e in reversed(cut.predecessor.entries) if _said(e))
    text += "\n" + _in_order(users, (characters - len(text)) // 3)
    return text + "\n" + _in_order(_newest(cut.predecessor.entries), characters - len(text) - 1)


def native_summary(cut: Cut, characters: int) -> str:
    """What the harness put in place of the thread; there is none at a cut."""
    return cut.summary


BASELINES: dict[str, Callable[[Cut, int], str]] = {
    "random": random_lines,
    "last": last_messages,
    "index": index,
    "index+users+last": index_users_last,
    "native summary": native_summary,
    "whole": whole,
    "empty": nothing,
}


def _said(entry: Entry) -> bool:
    return entry.kind == "user" and entry.origin in ("typed", "queued", "answer")


def _newest(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in reversed(entries):
        call = entry.tool
        if call is None:
            yield f"{entry.kind}: {entry.text[:MESSAGE]}"
        else:
            yield f"{call.name}: {metric.given(call)[:MESSAGE]}\n{call.output[:OUTPUT]}"


def _index(thread: Thread) -> Iterator[str]:
    files: dict[str, None] = {}
    commands: dict[str, None] = {}
    for entry in reversed(thread.entries):
        used = metric.used((entry,), thread.cwd)
        files.update(dict.fromkeys(sorted(used.opened)))
        commands.update(dict.fromkeys(sorted(used.commands)))
    yield from commands
    yield from files


def _fitting(lines: Iterable[str], characters: int) -> str:
    """The first lines that fit; one that is longer than the room left is passed over."""
    kept: list[str] = []
    for line in lines:
        if len(line) + 1 <= characters:
            kept.append(line)
            characters -= len(line) + 1
    return "\n".join(kept)


def _in_order(newest: Iterable[str], characters: int) -> str:
    """The newest texts that fit, the oldest of them first."""
    kept: list[str] = []
    for text in newest:
        if len(text) + 1 > characters:
            break
        kept.append(text)
        characters -= len(text) + 1
    return "\n".join(reversed(kept))
