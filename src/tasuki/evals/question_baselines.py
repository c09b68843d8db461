"""What a brief's answers are compared with: simple briefs of the same size, from the thread alone.

They are made as strong as a few lines can make them: shares of the budget, the newest first, long
texts shortened, and no summary of the harness among them.
"""

import random
from collections.abc import Callable, Iterable, Iterator

from tasuki.evals import metric
from tasuki.model import Entry, Thread

CALL, OUTPUT, MESSAGE, LINE = 600, 300, 600, 300
"""Characters of a call, of its output, of a user message in `mix`, of a random line."""
LEAST_LINE, LEAST_PIECE = 10, 80
"""Characters: shorter lines are not drawn, shorter ends are left out."""
USERS = 6
"""Newest messages of the user in `mix`."""


def draw_lines(thread: Thread, characters: int) -> str:
    """Lines of the thread drawn at random until the budget is full."""
    texts = (text for e in thread.entries if e.kind != "compaction" for text in _texts(e))
    lines = [x[:LINE] for text in texts for x in text.splitlines() if len(x.strip()) > LEAST_LINE]
    random.Random(len(lines)).shuffle(lines)  # noqa: S311
    return _fill(lines, characters)


def take_last(thread: Thread, characters: int) -> str:
    """The newest messages, calls and outputs that fit, each shortened."""
    return "\n".join(reversed(_fitting(_newest(thread), characters)))


def list_index(thread: Thread, characters: int) -> str:
    """Files edited, files read, commands run; the newest first."""
    edited: dict[str, None] = {}
    opened: dict[str, None] = {}
    commands: dict[str, None] = {}
    for entry in reversed(thread.entries):
        used = metric.used((entry,), thread.cwd)
        edited.update(dict.fromkeys(sorted(used.edited)))
        opened.update(dict.fromkeys(sorted(used.opened)))
        commands.update(dict.fromkeys(sorted(used.commands)))
    text = _fill(edited, characters * 35 // 100)
    text += "\n" + _fill((f for f in opened if f not in edited), characters * 25 // 100)
    return text + "\n" + _fill(commands, characters - len(text) - 1)


def mix(thread: Thread, characters: int) -> str:
    """The index, then the newest messages of the user, then the newest of all."""
    text = list_index(thread, characters * 45 // 100)
    said = [e.text[:MESSAGE] for e in reversed(thread.entries) if _is_said(e)]
    text += "\n" + _fill(said[:USERS], characters // 5)
    return text + "\n" + take_last(thread, characters - len(text) - 1)


QUESTION_BASELINES: dict[str, Callable[[Thread, int], str]] = {
    "random": draw_lines,
    "last": take_last,
    "index": list_index,
    "mix": mix,
}


def _is_said(entry: Entry) -> bool:
    return entry.kind == "user" and entry.origin in ("typed", "queued", "answer")


def _texts(entry: Entry) -> Iterator[str]:
    """What an entry holds: its words, or a call and its output."""
    if entry.tool is None:
        yield entry.text
    else:
        yield f"{entry.tool.name} {metric.given(entry.tool)}"
        yield entry.tool.output


def _newest(thread: Thread) -> Iterator[str]:
    for entry in reversed(thread.entries):
        if entry.kind == "compaction" or (entry.kind == "user" and entry.origin == "harness"):
            continue
        if entry.tool is None:
            texts = [entry.text]
        else:
            call, output = _texts(entry)
            texts = [output[:OUTPUT], call[:CALL]]
        yield from filter(None, texts)


def _fill(lines: Iterable[str], characters: int) -> str:
    return "\n".join(_fitting(lines, characters))


def _fitting(texts: Iterable[str], characters: int) -> list[str]:
    """The first texts that fit, and the beginning of the next one."""
    kept: list[str] = []
    for text in texts:
        if len(text) + 1 > characters:
            if characters - 1 > LEAST_PIECE:
                kept.append(text[: characters - 1])
            break
        kept.append(text)
        characters -= len(text) + 1
    return kept
