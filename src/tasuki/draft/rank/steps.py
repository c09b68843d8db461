"""The last steps of a thread: its newest distinct commands and edits, in order, with their
results.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from tasuki.draft.facts.commands import CommandRun, find_error, find_outcome, shorten_command
from tasuki.draft.facts.files import find_symbols, is_noise
from tasuki.draft.facts.mentions import make_relative
from tasuki.draft.text.split import fold_whitespace, shorten
from tasuki.model import Entry, Item, Thread, ToolCall

MAX_COMMAND, MAX_RESULT = 140, 110
"""Characters of a command, and of the line with its result."""
MAX_NAMES = 4
"""Names listed for an edit."""
_COMMITTED = re.compile(r"(?m)^\[[^\]\n]+ [0-9a-f]{7,40}\] .+$")
MAX_OUTPUT_LINES = 3
"""Lines of output, other than a check's, of which the last one still gives a command's result."""
_INFORMATIVE = re.compile(r"\d|[Ee]rror|ERR|[Ff]ail|Exception|[Ww]arn")
"""What makes the last of many lines worth quoting: a figure, or something that went wrong."""
STEP_WINDOW = 120
"""Newest entries in which steps are looked for."""


def list_last_steps(
    thread: Thread,
    runs: Sequence[CommandRun],
    names: Mapping[str, str],
    limit: int,
    excluded: Collection[int] = (),
) -> list[Item]:
    """Return the newest `limit` distinct commands and edits, oldest first.

    Entries in `excluded` are left out. `names` are short names of paths.
    """
    by_ref = {run.ref: run for run in runs}
    steps: list[Item] = []
    seen: set[str] = set()
    for entry in reversed(thread.entries[-STEP_WINDOW:]):
        if len(steps) >= limit:
            break
        item = (
            _build_step(entry, by_ref.get(entry.ref), names, thread.cwd)
            if entry.ref not in excluded
            else None
        )
        if item is None or (key := item.text.partition(" → ")[0]) in seen:
            continue
        seen.add(key)
        steps.append(item)
    return steps[::-1]


def _build_step(
    entry: Entry, run: CommandRun | None, names: Mapping[str, str], cwd: str
) -> Item | None:
    call = entry.tool
    if call is None:
        return None
    if call.changes:
        return _build_edit(entry, call, names, cwd)
    if run is not None and not run.navigation:
        return _build_command(run, call)
    return None


def _build_edit(entry: Entry, call: ToolCall, names: Mapping[str, str], cwd: str) -> Item | None:
    """Return an edit with the names that it touched."""
    changes = [c for c in call.changes if not is_noise(c.path)]
    if not changes or call.status == "refused":
        return None
    whole = dict.fromkeys(make_relative(c.path, cwd) for c in changes)
    paths = [f"`{names.get(path, path)}`" for path in whole]
    kinds = {c.kind for c in changes}
    verb = (
        {"create": "wrote", "delete": "deleted", "rename": "renamed"}.get(kinds.pop(), "edited")
        if len(kinds) == 1
        else "edited"
    )
    failed = ", which failed" if call.status == "error" else ""
    inside = [f"`{name}`" for name in find_symbols(c.new or c.old for c in changes)[:MAX_NAMES]]
    name_list = f": {', '.join(inside)}" if inside else ""
    more = f" and {len(paths) - 4} more" if len(paths) > 4 else ""
    return Item(text=f"{verb} {', '.join(paths[:4])}{more}{failed}{name_list}", refs=(entry.ref,))


def _build_command(run: CommandRun, call: ToolCall) -> Item | None:
    """Return a command with one line of its result."""
    result = _format_result(run, call)
    text = f"`{shorten_command(run.command, MAX_COMMAND).replace('`', '')}`"
    return Item(text=f"{text} → {result}" if result else text, refs=(run.ref,))


def _format_result(run: CommandRun, call: ToolCall) -> str:
    if call.status == "aborted":
        return "interrupted"
    if commit := _COMMITTED.search(run.output):
        return shorten(fold_whitespace(commit[0]), MAX_RESULT)
    if not run.known:
        return ""
    if not run.ok:
        error = find_error(run)
        return shorten(f"failed: {fold_whitespace(error)}", MAX_RESULT) if error else "failed"
    if run.check and (line := find_outcome(run)):
        return shorten(line, MAX_RESULT)
    lines = [line for line in run.output.split("\n") if line.strip()]
    if (
        len(lines) > MAX_OUTPUT_LINES
        and "git " not in run.command
        and not _INFORMATIVE.search(lines[-1])
    ):
        return ""  # Any one of many lines says little.
    return shorten(fold_whitespace(lines[-1]), MAX_RESULT) if lines else "no output"
