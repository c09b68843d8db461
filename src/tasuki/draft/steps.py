"""The last steps of a thread: its newest distinct commands and edits, in order, with what came of each."""

import re
from collections.abc import Collection, Mapping, Sequence

from tasuki.draft.commands import Run, error_of, outcome, short_command
from tasuki.draft.files import is_noise, symbols
from tasuki.draft.mentions import relative
from tasuki.draft.text import one_line, shorten
from tasuki.model import Entry, Item, Thread, ToolCall

COMMAND, RESULT = 140, 110
"""Characters of a command, and of the line that says what came of it."""
NAMES = 4
"""Names told of an edit."""
_COMMITTED = re.compile(r"(?m)^\[[^\]\n]+ [0-9a-f]{7,40}\] .+$")
MOST_LINES = 3
"""Lines of output, other than a check's, of which the last one still says what came of a command."""
_TELLS = re.compile(r"\d|[Ee]rror|ERR|[Ff]ail|Exception|[Ww]arn")
"""What makes the last of many lines worth telling: a figure, or something that went wrong."""
LOOKED_AT = 120
"""Newest entries in which steps are looked for."""


def last_steps(
    thread: Thread,
    runs: Sequence[Run],
    names: Mapping[str, str],
    limit: int,
    told: Collection[int] = (),
) -> list[Item]:
    """The newest `limit` distinct commands and edits, oldest first, without the entries in `told`.

    `names` are short names of paths.
    """
    by_ref = {run.ref: run for run in runs}
    steps: list[Item] = []
    seen: set[str] = set()
    for entry in reversed(thread.entries[-LOOKED_AT:]):
        if len(steps) >= limit:
            break
        item = (
            _step(entry, by_ref.get(entry.ref), names, thread.cwd)
            if entry.ref not in told
            else None
        )
        if item is None or (key := item.text.partition(" → ")[0]) in seen:
            continue
        seen.add(key)
        steps.append(item)
    return steps[::-1]


def _step(entry: Entry, run: Run | None, names: Mapping[str, str], cwd: str) -> Item | None:
    call = entry.tool
    if call is None:
        return None
    if call.changes:
        return _edit(entry, call, names, cwd)
    if run is not None and not run.navigation:
        return _command(run, call)
    return None


def _edit(entry: Entry, call: ToolCall, names: Mapping[str, str], cwd: str) -> Item | None:
    """An edit with the names that it touched."""
    changes = [c for c in call.changes if not is_noise(c.path)]
    if not changes or call.status == "refused":
        return None
    whole = dict.fromkeys(relative(c.path, cwd) for c in changes)
    paths = [f"`{names.get(path, path)}`" for path in whole]
    kinds = {c.kind for c in changes}
    verb = (
        {"create": "wrote", "delete": "deleted", "rename": "renamed"}.get(kinds.pop(), "edited")
        if len(kinds) == 1
        else "edited"
    )
    failed = ", which failed" if call.status == "error" else ""
    inside = [f"`{name}`" for name in symbols(c.new or c.old for c in changes)[:NAMES]]
    told = f": {', '.join(inside)}" if inside else ""
    more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
    return Item(text=f"{verb} {', '.join(paths[:4])}{more}{failed}{told}", refs=(entry.ref,))


def _command(run: Run, call: ToolCall) -> Item | None:
    """A command with one line of its result."""
    result = _result(run, call)
    text = f"`{short_command(run.command, COMMAND).replace('`', '')}`"
    return Item(text=f"{text} → {result}" if result else text, refs=(run.ref,))


def _result(run: Run, call: ToolCall) -> str:
    if call.status == "aborted":
        return "interrupted"
    if commit := _COMMITTED.search(run.output):
        return shorten(one_line(commit[0]), RESULT)
    if not run.known:
        return ""
    if not run.ok:
        error = error_of(run)
        return shorten(f"failed: {one_line(error)}", RESULT) if error else "failed"
    if run.check and (line := outcome(run)):
        return shorten(line, RESULT)
    lines = [line for line in run.output.split("\n") if line.strip()]
    if len(lines) > MOST_LINES and "git " not in run.command and not _TELLS.search(lines[-1]):
        return ""  # Any one of many lines says little.
    return shorten(one_line(lines[-1]), RESULT) if lines else "no output"
