"""What a brief's answers are compared with: simple briefs of the same size, from the
thread alone.

They are as strong as a few lines of code allow: shares of the budget, the newest first,
long texts shortened, and no summary of the harness among them.
"""

import random
from collections.abc import Callable, Iterable, Iterator

from tasuki.model import Entry, Thread
from tasuki_evals.continuation import metric

MAX_CALL, MAX_OUTPUT, MAX_MESSAGE, MAX_LINE = 600, 300, 600, 300
"""Characters of a call, of its output, of a user message in `mix_sources`, of a random line."""
MIN_LINE, MIN_PIECE = 10, 80
"""Characters: shorter lines are not drawn, shorter ends are left out."""
MAX_USER_MESSAGES = 6
"""Newest messages of the user in `mix_sources`."""


def draw_lines(thread: Thread, characters: int) -> str:
    """Return lines of the thread drawn at random until the budget is full."""
    texts = (text for e in thread.entries if e.kind != "compaction" for text in _list_texts(e))
    lines = [x[:MAX_LINE] for text in texts for x in text.splitlines() if len(x.strip()) > MIN_LINE]
    random.Random(len(lines)).shuffle(lines)  # noqa: S311
    return _fill_budget(lines, characters)


def take_last(thread: Thread, characters: int) -> str:
    """Return the newest messages, calls and outputs that fit, each shortened."""
    return "\n".join(reversed(_select_fitting(_list_newest(thread), characters)))


def list_index(thread: Thread, characters: int) -> str:
    """Return files edited, files read, commands run; the newest first."""
    edited: dict[str, None] = {}
    opened: dict[str, None] = {}
    commands: dict[str, None] = {}
    for entry in reversed(thread.entries):
        used = metric.collect_used((entry,), thread.cwd)
        edited.update(dict.fromkeys(sorted(used.edited)))
        opened.update(dict.fromkeys(sorted(used.opened)))
        commands.update(dict.fromkeys(sorted(used.commands)))
    text = _fill_budget(edited, characters * 35 // 100)
    text += "\n" + _fill_budget((f for f in opened if f not in edited), characters * 25 // 100)
    return text + "\n" + _fill_budget(commands, characters - len(text) - 1)


def mix_sources(thread: Thread, characters: int) -> str:
    """Return the index, then the newest messages of the user, then the newest of all."""
    text = list_index(thread, characters * 45 // 100)
    user_messages = [
        e.text[:MAX_MESSAGE]
        for e in reversed(thread.entries)
        if e.kind == "user" and e.origin in ("typed", "queued", "answer")
    ]
    text += "\n" + _fill_budget(user_messages[:MAX_USER_MESSAGES], characters // 5)
    return text + "\n" + take_last(thread, characters - len(text) - 1)


QUESTION_BASELINES: dict[str, Callable[[Thread, int], str]] = {
    "random": draw_lines,
    "last": take_last,
    "index": list_index,
    "mix": mix_sources,
}


def _list_texts(entry: Entry) -> Iterator[str]:
    """Yield what an entry holds: its words, or a call and its output."""
    if entry.tool is None:
        yield entry.text
    else:
        yield f"{entry.tool.name} {metric.join_input(entry.tool)}"
        yield entry.tool.output


def _list_newest(thread: Thread) -> Iterator[str]:
    for entry in reversed(thread.entries):
        if entry.kind == "compaction" or (entry.kind == "user" and entry.origin == "harness"):
            continue
        if entry.tool is None:
            texts = [entry.text]
        else:
            call, output = _list_texts(entry)
            texts = [output[:MAX_OUTPUT], call[:MAX_CALL]]
        yield from filter(None, texts)


def _fill_budget(lines: Iterable[str], characters: int) -> str:
    return "\n".join(_select_fitting(lines, characters))


def _select_fitting(texts: Iterable[str], characters: int) -> list[str]:
    """Return the first texts that fit, and the beginning of the next one."""
    fitting: list[str] = []
    for text in texts:
        if len(text) + 1 > characters:
            if characters - 1 > MIN_PIECE:
                fitting.append(text[: characters - 1])
            break
        fitting.append(text)
        characters -= len(text) + 1
    return fitting
