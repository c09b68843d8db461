"""What the last calls of a thread read and printed, which fills the room left in a brief, and the names in them."""

import math
from collections.abc import Iterator, Mapping

from tasuki.draft.facts.commands import shorten_command
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.facts.files import find_short_names
from tasuki.draft.rank.guides import clean_document, names_file
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.runs.command_kinds import find_change
from tasuki.draft.text.entries import strip_colours
from tasuki.draft.text.language_cues import is_foreign
from tasuki.draft.text.split import find_identifiers, measure_text
from tasuki.model import Entry, Item, Thread, ToolCall
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

MIN_OUTPUT, MAX_OUTPUT = 80, 1_200
"""Characters of an output that is worth quoting, and of it that are quoted where there is no more room."""
NEWEST_CALLS = 60
NOTE_WORTH = 2.0
"""What a plan or a note for later that the agent wrote is worth more, however old."""
_NOTE = compile_pattern(
    r"(?i)(?:^|/)(?:[\w.-]*[_-])?(?:resume|next|todos?|plan|notes?|progress|handoff|status|roadmap|tasks?|findings)(?:[_.-][\w.-]*)?\.(?:md|txt)$|/plans/[^/]+\.md$"
)
GOAL_WEIGHT = 1.0
"""What an output that holds the goal's words is worth besides a newer one."""
MARK, WRITTEN, PRINTED = "[…]", "Written into", "Printed by"
MAX_LINE = 1_000
"""Characters of a line from which on an output is data that a cut would falsify."""
SHOWN_LINE = 300
_CHANGES_TREE = compile_pattern(
    r"git\s+(?:-\S+\s+\S+\s+)?(?:reset|checkout|restore|clean|stash|pull|merge|rebase|switch|commit|add|am|cherry-pick|revert)\b"
)
_CUT_OFF = compile_pattern(r"(?i)\W*(?:truncated\b|\.\.\. ?\+?\d+ lines)|.*\[truncated \d+")
_SKILL = compile_pattern(r"(?i)(?:^|/)skill\.md$|/skills/")
_LISTS_FILES = compile_pattern(
    r"^\s*(?:cd \S+ (?:&&|;) )?(?:rg --files|git ls-files|ls|find|fd|tree|dir|get-childitem|gci)\b"
)


def list_printed(
    thread: Thread, derived: DerivedFacts, relevance: Relevance, room: int
) -> list[Item]:
    """Return outputs of the newest calls in `room` characters, in the order of time.

    The newest ones and those that hold the goal's words are chosen; of a file that was read
    several times, the last reading.
    """
    names = find_short_names(f.path for f in derived.facts.files)
    current = derived.remember("printed", lambda: _find_current(thread, names))
    by_ref = {entry.ref: entry for entry in thread.entries if entry.ref in current}
    found: list[tuple[float, Entry, str, str]] = []
    for ref, is_note in current.items():
        call = by_ref[ref].tool
        assert call
        text, label = _find_output(call), _describe_call(call, thread.cwd, names)[1]
        near = relevance.measure_overlap(text[:20_000])
        worth = relevance.measure_recency(ref) + GOAL_WEIGHT * near + NOTE_WORTH * is_note
        found.append((worth, by_ref[ref], label, text))
    longest = max(MAX_OUTPUT, room // 4)
    chosen: list[Item] = []
    told: set[str] = set()
    for _, entry, label, whole in sorted(found, key=lambda one: -one[0]):
        text = strip_colours(whole)
        is_read = entry.tool is not None and entry.tool.kind == "read"
        text = cut_middle(clean_document(text) if is_read else text, longest)
        cost = measure_text(text) + 2 * text.count("\n") + len(label) + 16
        lines = set(text.split("\n"))
        is_new = len(lines) > 1 and len(lines & told) <= len(lines) / 2
        own = [line for line in whole.split("\n") if not _CUT_OFF.match(line)]
        tells = sum(map(len, own)) >= MIN_OUTPUT and max(map(len, own)) <= MAX_LINE
        is_cut_diff = whole.count("diff --git") > 1 and len(whole) > MAX_OUTPUT
        if cost <= room and is_new and tells and not (is_cut_diff or is_foreign(whole)):
            room -= cost
            told |= lines
            chosen.append(Item(text=text, refs=(entry.ref,), label=label))
    return sorted(chosen, key=lambda item: item.refs)


def _find_current(thread: Thread, names: Mapping[str, str]) -> dict[int, bool]:
    """Return the refs of calls whose output still holds, and whether each is a note or a plan."""
    found: dict[str, tuple[int, bool, str, str]] = {}
    calls = [entry for entry in thread.entries if entry.tool]
    for age, entry in enumerate(calls, NEWEST_CALLS - len(calls)):
        call = entry.tool
        assert call
        if age < 0 and not (found or call.changes):
            continue
        shown, label = _describe_call(call, thread.cwd, names)
        _drop_outdated(found, shown, call)
        is_note = label.startswith(WRITTEN) and shown.lower().endswith((".md", ".txt"))
        is_note = is_note and bool(_NOTE.search(shown))
        if age < 0 and not is_note:
            continue
        text = _find_output(call)
        if len(text) >= MIN_OUTPUT:
            found[shown] = (entry.ref, is_note, label, text)
    return {ref: is_note for ref, is_note, _, _ in found.values()}


def _drop_outdated(
    found: dict[str, tuple[int, bool, str, str]], shown: str, call: ToolCall
) -> None:
    """Drop what was shown before of the same, and what was shown of files that a call changes."""
    if not call.changes or call.status == "ok":
        found.pop(shown, None)
    if not found:
        return
    changed = find_change(call.command) if call.kind == "shell" and call.was_done else ""
    for key, (_, _, label, text) in list(found.items()):
        is_of_file = not label.startswith(PRINTED)
        is_git = bool(changed and _CHANGES_TREE.match(changed))
        is_changed = is_git and (is_of_file or "`git " in label)
        is_changed |= bool(changed) and names_file(changed or "", key if is_of_file else label)
        changes = call.changes if call.was_done and not is_of_file else ()
        if is_changed or any(names_file(f"{label}\n{text}", one.path) for one in changes):
            del found[key]


def _describe_call(call: ToolCall, cwd: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the file or command that a call shows, and a label."""
    if call.changes or (call.kind == "read" and call.paths):
        path = make_relative(call.changes[-1].path if call.changes else call.paths[0], cwd)
        return path, f"{WRITTEN if call.changes else 'Read'} `{names.get(path, path)}`"
    command = shorten_command(call.command, 100).replace("`", "")
    return command, f"{PRINTED} `{command}`"


def _find_output(call: ToolCall) -> str:
    """Return what a call shows of its file or its command; empty where it shows nothing."""
    if call.changes:
        return call.changes[-1].new if call.status == "ok" else ""
    if call.kind == "read" and call.paths:
        is_shown = not _SKILL.search(call.paths[0])
    else:
        is_shown = call.kind in ("shell", "search") and bool(call.command.replace("`", "").strip())
        is_shown = is_shown and not _LISTS_FILES.search(call.command)
        is_shown = is_shown and not _SKILL.search(call.command)
    return call.output if is_shown and call.was_done else ""


def cut_middle(text: str, limit: int) -> str:
    """Return a text without the lines in the middle that are too many, and without empty ones."""
    lines = list(_list_lines(text))
    if sum(map(len, lines)) + len(lines) <= limit:
        return "\n".join(lines)
    head: list[str] = []
    tail: list[str] = []
    for part, source in ((head, iter(lines)), (tail, reversed(lines))):
        left = limit // 2
        for line in source:
            left -= len(line) + 1
            if left < 0:
                break
            part.append(line)
    return "\n".join([*head, MARK, *reversed(tail)])


def _list_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.strip():  # Cut at a blank, so that no secret and no number is halved.
            whole = line.rstrip()
            cut = whole[:SHOWN_LINE].rpartition(" ")[0]
            yield whole if len(whole) <= SHOWN_LINE else f"{cut} …"


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
        changed = "\n".join(change.new for change in call.changes)
        path, text = _find_place(call), f"{call.command}\n{call.detail}\n{changed}"
        text = text if len(text) <= MAX_INPUT else text[:MAX_INPUT].rpartition("\n")[0]
        for name in set(find_identifiers(text)):
            is_telling = _TELLING.match(name) and not _COMMON.match(name)
            if is_telling and (call.changes or name in call.output):
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
