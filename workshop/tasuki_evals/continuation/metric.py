"""What the continuation benchmark counts. The tokeniser and the filters here *are* the metric.

`VERSION` changes with anything in this file that changes a figure, and such a change never
goes into the same commit as a change of a method. Nothing here is shared with the ranking:
the measure must not be tuned together with what it measures.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set

from msgspec import Struct

from tasuki.draft.text.split import count_tokens
from tasuki.model import Entry, Thread, ToolCall
from tasuki.shell import split_commands, strip_assignments

VERSION = 2
"""Version 1 split commands without a lexer, so lines of quotes and here-documents counted
as commands.
"""
COLUMNS = ("edit", "file", "cmd", "id", "only", "pfile", "p3", "p5", "id1", "edit@5")
"""Targets in the order they are printed; `tokens` is printed after them."""
FIRST_FILES = 5
"""Number of files named first that `edit@5` covers."""
PRECISIONS = {"p3": 3, "p5": 5}
"""Number of files named first whose precision is measured."""

_NAME = re.compile(
    r"https?://[^\s\"'`<>()\[\]{}\\]+"  # an address
    r"|(?<![\w-])--?[A-Za-z][\w-]+"  # a flag
    r"|(?:[\w.@~+-]*/)+[\w.@+-]+"  # a path
    r"|[A-Za-z_$][\w$]*(?:(?:\.|::|->|-)[A-Za-z_$][\w$]*)*"  # a name
    r"|\d[\w.]*"  # a number or a hash
)
_PART = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*")
_TELLING = re.compile(r"[a-z][A-Z]|[A-Z]{2}|_|\d|[./:>-]|^[A-Z][a-z]+[A-Z]")
_MIN_NAME, _MIN_NUMBER = 4, 2
_WORD_AROUND = r"[\w/.@+-]"

_MIN_COMMAND, _MAX_COMMAND = 4, 200
"""Characters of a command that counts."""
_PROGRAM = re.compile(r"(?=.*[A-Za-z])(?:[A-Za-z]:)?[\w.~/\\@+][\w.~/\\@+-]*")
"""A name or path that can be a program's."""
_CONTINUED = re.compile(r"(?:\\|(?<=\s)`)\r?\n")
_NAVIGATION = frozenset(
    "cd ls ll pwd cat head tail sed nl grep egrep rg ag find fd tree wc which file stat echo printf awk jq sort uniq less "
    "more du df env whoami date sleep true false type mkdir export set cut tr xargs touch cp mv rm test [ tee diff read "
    "break continue exit return source . wait kill ps".split()
)
_CMDLETS = frozenset(
    "get-childitem get-content get-item get-location get-command get-process get-date get-member set-location push-location "
    "pop-location select-string select-object sort-object where-object foreach-object measure-object format-table format-list "
    "out-string out-file out-null write-output write-host set-content add-content new-item copy-item move-item test-path "
    "resolve-path split-path join-path start-sleep".split()
)
"""Commands of PowerShell that are navigation."""
_BOOKKEEPING = frozenset(
    "status log diff show branch remote rev-parse ls-files blame add fetch grep reflog describe config stash checkout "
    "switch commit push pull merge rebase reset restore tag worktree cherry-pick merge-base cat-file ls-tree".split()
)
_SHELL_READ = re.compile(r"(?:^|[|;&(]\s*)(?:sed\s+-n|cat|nl|head|tail|less|bat)\s+([^|;&><\n]+)")
_SHELL_PATH = re.compile(r"(?<![\w./-])(?:[\w.@+~-]*/)*[\w@+-][\w.@+-]*\.\w{1,8}(?![\w/])")
_MENTION = re.compile(
    r"(?<![\w:/.-])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w@+-][\w.@+-]*\.(?!\d)[A-Za-z]\w{0,7}(?![\w/(])"
)
"""A file that is only mentioned: a path of at least two parts, with an extension."""


def extract_names(text: str, cwd: str = "") -> set[str]:
    """Return identifiers, paths, flags, addresses, numbers and hashes of a text.

    The parts of paths are included. Paths below the working directory count as relative to it.
    """
    if len(cwd) > 1:
        text = text.replace(f"{cwd.rstrip('/')}/", "")
    found: set[str] = set()
    for match in _NAME.finditer(text):
        token = match[0].rstrip(".,:-")
        if _is_telling(token):
            found.add(token)
        if "/" in token or "." in token or "-" in token:
            found.update(part for part in _PART.findall(token) if _is_telling(part))
    return found


def _is_telling(token: str) -> bool:
    """Return whether a token is more than a plain word: it has case, a mark or a digit inside."""
    if token.isdigit() or re.fullmatch(r"\d+(?:\.\d+)+", token):
        return len(token) >= _MIN_NUMBER
    return _MIN_NAME <= len(token) <= 200 and bool(_TELLING.search(token))


def split_segments(command: str, *, powershell: bool | None = None) -> list[str]:
    """Return the simple commands of a command line that do something.

    Variables set before them are removed. Left out are navigation, git bookkeeping, commands
    that read from a pipe, and those that name no program.
    """
    found = []
    for one in split_commands(command, powershell=powershell):
        bare = "" if one.is_piped else strip_assignments(one.text)
        if _MIN_COMMAND <= len(bare) <= _MAX_COMMAND and _is_effective(bare.split()):
            found.append(bare)
    return found


def _is_effective(words: Sequence[str]) -> bool:
    program = words[0]
    if program in _NAVIGATION or program.lower() in _CMDLETS or not _PROGRAM.fullmatch(program):
        return False
    return program != "git" or _find_git_verb(words) not in _BOOKKEEPING


def _find_git_verb(words: Sequence[str]) -> str:
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "-c"):
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return "status"


class UsedItems(Struct, frozen=True):
    """What some entries used, by their tool inputs alone: what the agent did, not what it read."""

    edited: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
    """Read or edited."""
    commands: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


def collect_used(entries: Iterable[Entry], cwd: str) -> UsedItems:
    """Return what the tool calls of some entries used; paths relative to the working directory."""
    edited: set[str] = set()
    opened: set[str] = set()
    commands: set[str] = set()
    found: set[str] = set()
    for entry in entries:
        call = entry.tool
        if call is None or entry.origin == "command" or call.status == "refused":
            continue
        edited.update(make_relative(c.path, cwd) for c in call.changes)
        if call.kind == "read":
            opened.update(make_relative(p, cwd) for p in call.paths)
        if call.kind == "shell":
            # None where the tool does not say that it is PowerShell: the command decides.
            powershell = call.name.lower() == "powershell" or None
            commands.update(split_segments(call.command, powershell=powershell))
            opened.update(find_shell_reads(call.command, cwd))
        found |= extract_names(join_input(call), cwd)
    return UsedItems(
        edited=frozenset(_filter_files(edited)), opened=frozenset(_filter_files(edited | opened)),
        commands=frozenset(commands), names=frozenset(found),
    )  # fmt: skip


def join_input(call: ToolCall) -> str:
    """Return the input of a tool call as one text, without its result."""
    changes = [t for c in call.changes for t in (c.path, c.old, c.new)]
    todos = [t.text for t in call.todos or ()]
    return "\n".join((call.command, call.detail, *call.paths, *changes, *todos))


def find_shell_reads(command: str, cwd: str) -> set[str]:
    """Return files that a shell command shows with `cat`, `sed -n` and the like."""
    shown = (m[1] for m in _SHELL_READ.finditer(command))
    return {make_relative(p, cwd) for part in shown for p in _SHELL_PATH.findall(part)}


def make_relative(path: str, cwd: str) -> str:
    """Return a path relative to the working directory if it is below it."""
    path = path.strip("\"'` ").removeprefix("file://")
    if cwd and path.startswith(f"{cwd.rstrip('/')}/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    return path.removeprefix("./")


def _filter_files(paths: Iterable[str]) -> set[str]:
    return {p for p in paths if p and not p.endswith("/") and not set("*$?{}") & set(p)}


def _drop_path_ends(paths: Set[str]) -> Set[str]:
    """Return the paths without ends of longer ones, which name the same from another folder."""
    ends = {p[index + 1 :] for p in paths for index, c in enumerate(p) if c == "/"}
    return paths - ends


def is_named(path: str, text: str) -> bool:
    """Return whether a text names a file: by its whole path from the working directory."""
    return _find_place(path, text) >= 0


def _find_place(path: str, text: str) -> int:
    """Return where a text first names a file, or -1."""
    start = text.find(path)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(path) : start + len(path) + 2]
        if not re.match(r"[\w@+-]", before) and not re.match(r"[\w@+/-]|\.\w", after):
            return start
        start = text.find(path, start + 1)
    return -1


class HandoffTargets(Struct, frozen=True):
    """Those parts of the future that a handoff can contain.

    They are used later, known before, and not said by the goal. `known` are the files that the
    predecessor knew; `weights` of names are by rarity in it.
    """

    edit: frozenset[str]
    file: frozenset[str]
    cmd: frozenset[str]
    id: dict[str, float]
    known: frozenset[str]
    cwd: str = ""
    only: frozenset[str] | None = None
    """The names that are not in the repository's tree; None where the tree is not known."""


def join_whole_text(entries: Iterable[Entry]) -> str:
    """Return everything in some entries."""
    parts = []
    for entry in entries:
        parts.append(entry.text)
        if entry.tool:
            parts += [join_input(entry.tool), entry.tool.output]
    return "\n".join(p for p in parts if p)


def find_targets(thread: Thread, future: Sequence[Entry], goal: str) -> HandoffTargets:
    """Return the targets of a predecessor, the entries that followed, and the goal between them."""
    text = join_whole_text(thread.entries)
    before, later = collect_used(thread.entries, thread.cwd), collect_used(future, thread.cwd)
    named = {p for p in later.opened | later.edited if p in before.opened or is_named(p, text)}
    fresh = {p for p in named if not is_named(p, goal)}
    seen_in = _count_entries_by_name(thread.entries, thread.cwd)
    wanted = (later.names & seen_in.keys()) - extract_names(goal, thread.cwd)
    total = len(thread.entries)
    asked = _fold_text(goal)
    mentioned = _filter_files(make_relative(p, thread.cwd) for p in _MENTION.findall(text))
    inside = {p for p in mentioned if not p.startswith(("/", "~", "..", "a/", "b/"))}
    return HandoffTargets(
        edit=frozenset(later.edited & fresh), file=frozenset(fresh),
        cmd=frozenset(c for c in later.commands & before.commands if c not in asked),
        id={n: math.log(1 + total / seen_in[n]) for n in sorted(wanted)}, cwd=thread.cwd,
        known=frozenset(_drop_path_ends(before.opened | named | inside)),
    )  # fmt: skip


def _count_entries_by_name(entries: Iterable[Entry], cwd: str) -> Counter[str]:
    """Return the number of entries that contain each name."""
    found: Counter[str] = Counter()
    for entry in entries:
        found.update(extract_names(join_whole_text((entry,)), cwd))
    return found


class HandoffScore(Struct, frozen=True):
    """The figures of one handoff in one case, 0 to 1; None where a case has no such target."""

    values: dict[str, float | None]
    tokens: int


def score_handoff(
    targets: HandoffTargets, text: str, opened_later: frozenset[str], cited: str = ""
) -> HandoffScore:
    """How much of the targets a handoff contains; `cited` is the text of its cited entries."""
    folded = _fold_text(text)
    places = {p: _find_place(p, text) for p in targets.known | targets.file}
    place_by_path = {p: at for p, at in places.items() if at >= 0}
    named = sorted(place_by_path, key=lambda p: (place_by_path[p], p))
    held = extract_names(text, targets.cwd)
    opened = held | extract_names(cited, targets.cwd)
    nothing_named = 0.0 if targets.file else None
    only = None
    if targets.only is not None:
        only = {n: w for n, w in targets.id.items() if n in targets.only}
    values: dict[str, float | None] = {
        "edit": _compute_share(targets.edit & place_by_path.keys(), targets.edit),
        "file": _compute_share(targets.file & place_by_path.keys(), targets.file),
        "cmd": _compute_share({c for c in targets.cmd if c in folded}, targets.cmd),
        "id": _compute_weighted_share(targets.id, held),
        "only": None if only is None else _compute_weighted_share(only, held),
        "pfile": _compute_share(opened_later & place_by_path.keys(), named, nothing_named),
        "id1": _compute_weighted_share(targets.id, opened) if cited else None,
        "edit@5": _compute_share(targets.edit & set(named[:FIRST_FILES]), targets.edit),
    }
    for column, count in PRECISIONS.items():
        first = named[:count]
        values[column] = _compute_share(opened_later & set(first), first, nothing_named)
    return HandoffScore(values=values, tokens=count_tokens(text))


def _fold_text(text: str) -> str:
    """Return a text on one line, as commands are: single blanks, continued lines joined."""
    return " ".join(_CONTINUED.sub("", text).split())


def _compute_share(
    held: Set[str], wanted: Collection[str], without: float | None = None
) -> float | None:
    """Return how much of what is wanted is contained; `without` if nothing is wanted."""
    return len(held) / len(wanted) if wanted else without


def _compute_weighted_share(wanted: dict[str, float], held: set[str]) -> float | None:
    total = sum(wanted.values())
    return sum(w for n, w in wanted.items() if n in held) / total if total else None
