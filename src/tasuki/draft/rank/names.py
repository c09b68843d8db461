"""The names that the last calls of a thread used, with the file that each was last used in."""

import math
from collections.abc import Iterator

from tasuki.draft.text.split import find_identifiers
from tasuki.model import Thread, ToolCall
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

NEWEST_CALLS = 60
FADING = 15.0
"""Calls after which a use counts a third."""
MAX_INPUT = 8_000
"""Characters of a call's input in which names are looked for."""
_SEARCHES = compile_pattern(r"(?:^|[|;&(\s])(?:rg|e?grep|ag|ack|fd|find|select-string|findstr)\s")
_COMMON = compile_pattern(r"(?:assert|require|console|expect|self|this|fmt|log|os|t|err)\b")
"""How names begin that stand in any file."""
_TELLING = compile_pattern(
    r"(?=.{4,60}$)(?!__\w+__$)[A-Za-z_$][\w$.:]*(?:[a-z][A-Z]|_|[A-Z][a-z]+[A-Z])[\w$.:]*$"
)


def rank_names(thread: Thread) -> Iterator[tuple[str, str]]:
    """Yield names and the file of each, empty where a call names none; the likeliest to be used next first.

    What counts is how often and how lately the agent wrote a name in a change, or in a command whose output holds it.
    """
    worth: dict[str, float] = {}
    files: dict[str, str] = {}
    calls = [
        entry.tool for entry in thread.entries if entry.tool and entry.tool.status != "refused"
    ]
    for age, call in enumerate(reversed(calls[-NEWEST_CALLS:])):
        path, text = _find_place(call), _join_input(call)
        for name in set(find_identifiers(text)):
            if (
                _TELLING.match(name)
                and not _COMMON.match(name)
                and (call.changes or name in call.output)
            ):
                worth[name] = worth.get(name, 0.0) + math.exp(-age / FADING)
                if path:
                    files.setdefault(name, make_relative(path, thread.cwd))
    for name in sorted(worth, key=lambda name: (-worth[name], name)):
        yield name, files.get(name, "")


def _find_place(call: ToolCall) -> str:
    """Return the one file that a call is about, empty where there are several, or where it searches."""
    if call.kind == "search" or _SEARCHES.search(call.command):
        return ""
    paths = [change.path for change in call.changes] or call.paths
    return paths[0] if len(set(paths)) == 1 else ""


def _join_input(call: ToolCall) -> str:
    changed = "\n".join(change.new for change in call.changes)
    text = f"{call.command}\n{call.detail}\n{changed}"
    return text if len(text) <= MAX_INPUT else text[:MAX_INPUT].rpartition("\n")[0]
