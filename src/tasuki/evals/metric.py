"""What the continuation benchmark counts. The tokeniser and the filters here *are* the metric.

`VERSION` changes with anything in this file that changes a figure, and such a change never goes
into the same commit as a change of a method. Nothing here is shared with the ranking: what
measures must not be tuned with what is measured.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set

from msgspec import Struct

from tasuki.model import Entry, Thread, ToolCall
from tasuki.shell import split_commands, strip_assignments

VERSION = 2
"""1 split commands without a lexer, so that lines of quotes and here-documents counted as commands."""
COLUMNS = ("edit", "file", "cmd", "id", "only", "pfile", "p3", "p5", "id1", "edit@5")
"""Targets in the order they are printed; `tokens` stands beside them."""
FIRST = 5
"""Files named first that `edit@5` looks at."""
PRECISIONS = {"p3": 3, "p5": 5}
"""Of how many files named first the precision is taken."""

_NAME = re.compile(
    r"https?://[^\s\"'`<>()\[\]{}\\]+"  # an address
    r"|(?<![\w-])--?[A-Za-z][\w-]+"  # a flag
    r"|(?:[\w.@~+-]*/)+[\w.@+-]+"  # a path
    r"|[A-Za-z_$][\w$]*(?:(?:\.|::|->|-)[A-Za-z_$][\w$]*)*"  # a name
    r"|\d[\w.]*"  # a number or a hash
)
_PART = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*")
_TELLING = re.compile(r"[a-z][A-Z]|[A-Z]{2}|_|\d|[./:>-]|^[A-Z][a-z]+[A-Z]")
_LEAST_NAME, _LEAST_NUMBER = 4, 2
_WORD_AROUND = r"[\w/.@+-]"

_LEAST_COMMAND, _MOST_COMMAND = 4, 200
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
"""What PowerShell calls navigation."""
_BOOKKEEPING = frozenset(
    "status log diff show branch remote rev-parse ls-files blame add fetch grep reflog describe config stash checkout "
    "switch commit push pull merge rebase reset restore tag worktree cherry-pick merge-base cat-file ls-tree".split()
)
_SHELL_READ = re.compile(r"(?:^|[|;&(]\s*)(?:sed\s+-n|cat|nl|head|tail|less|bat)\s+([^|;&><\n]+)")
_SHELL_PATH = re.compile(r"(?<![\w./-])(?:[\w.@+~-]*/)*[\w@+-][\w.@+-]*\.\w{1,8}(?![\w/])")
_MENTION = re.compile(
    r"(?<![\w:/.-])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w@+-][\w.@+-]*\.(?!\d)[A-Za-z]\w{0,7}(?![\w/(])"
)
"""A file that is only spoken of: a path of two parts at least, with an ending."""


def names(text: str, cwd: str = "") -> set[str]:
    """Identifiers, paths, flags, addresses, numbers and hashes of a text, with the parts of paths.

    Paths below the working directory count as seen from it.
    """
    if len(cwd) > 1:
        text = text.replace(f"{cwd.rstrip('/')}/", "")
    found: set[str] = set()
    for match in _NAME.finditer(text):
        token = match[0].rstrip(".,:-")
        if _tells(token):
            found.add(token)
        if "/" in token or "." in token or "-" in token:
            found.update(part for part in _PART.findall(token) if _tells(part))
    return found


def _tells(token: str) -> bool:
    """Whether a token is more than a plain word: it has case, a mark or a digit inside."""
    if token.isdigit() or re.fullmatch(r"\d+(?:\.\d+)+", token):
        return len(token) >= _LEAST_NUMBER
    return _LEAST_NAME <= len(token) <= 200 and bool(_TELLING.search(token))


def segments(command: str, *, powershell: bool | None = None) -> list[str]:
    """The simple commands of a shell command line that do something, without variables set before.

    Left out: navigation, git bookkeeping, what reads from a pipe, and what names no program.
    """
    found = []
    for one in split_commands(command, powershell=powershell):
        bare = "" if one.piped else strip_assignments(one.text)
        if _LEAST_COMMAND <= len(bare) <= _MOST_COMMAND and _does_something(bare.split()):
            found.append(bare)
    return found


def _does_something(words: Sequence[str]) -> bool:
    program = words[0]
    if program in _NAVIGATION or program.lower() in _CMDLETS or not _PROGRAM.fullmatch(program):
        return False
    return program != "git" or _git_verb(words) not in _BOOKKEEPING


def _git_verb(words: Sequence[str]) -> str:
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "-c"):
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return "status"


class Used(Struct, frozen=True):
    """What some entries used, by their tool inputs alone: what the agent did, not what it read."""

    edited: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
    """Read or edited."""
    commands: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


def used(entries: Iterable[Entry], cwd: str) -> Used:
    """What the tool calls of some entries used; paths relative to the working directory."""
    edited: set[str] = set()
    opened: set[str] = set()
    commands: set[str] = set()
    found: set[str] = set()
    for entry in entries:
        call = entry.tool
        if call is None or entry.origin == "command" or call.status == "refused":
            continue
        edited.update(relative(c.path, cwd) for c in call.changes)
        if call.kind == "read":
            opened.update(relative(p, cwd) for p in call.paths)
        if call.kind == "shell":
            commands.update(segments(call.command, powershell=_is_powershell(call)))
            opened.update(shell_reads(call.command, cwd))
        found |= names(given(call), cwd)
    return Used(
        edited=frozenset(_files(edited)),
        opened=frozenset(_files(edited | opened)),
        commands=frozenset(commands),
        names=frozenset(found),
    )


def _is_powershell(call: ToolCall) -> bool | None:
    """Whether the tool says that it is PowerShell; if not, the command tells."""
    return True if call.name.lower() == "powershell" else None


def given(call: ToolCall) -> str:
    """The input of a tool call as one text, without what came of it."""
    changes = [t for c in call.changes for t in (c.path, c.old, c.new)]
    todos = [t.text for t in call.todos or ()]
    return "\n".join((call.command, call.detail, *call.paths, *changes, *todos))


def shell_reads(command: str, cwd: str) -> set[str]:
    """Files that a shell command shows with `cat`, `sed -n` and the like."""
    shown = (m[1] for m in _SHELL_READ.finditer(command))
    return {relative(p, cwd) for part in shown for p in _SHELL_PATH.findall(part)}


def relative(path: str, cwd: str) -> str:
    """A path as seen from the working directory where it lies below it."""
    path = path.strip("\"'` ").removeprefix("file://")
    if cwd and path.startswith(f"{cwd.rstrip('/')}/"):
        path = path[len(cwd.rstrip("/")) + 1 :]
    return path.removeprefix("./")


def _files(paths: Iterable[str]) -> set[str]:
    return {p for p in paths if p and not p.endswith("/") and not set("*$?{}") & set(p)}


def _whole(paths: Set[str]) -> Set[str]:
    """Without paths that are the end of a longer one: the same file, named from another folder."""
    ends = {p[at + 1 :] for p in paths for at, c in enumerate(p) if c == "/"}
    return paths - ends


def is_named(path: str, text: str) -> bool:
    """Whether a text names a file: by its path from the working directory, as a whole."""
    return _place(path, text) >= 0


def _place(path: str, text: str) -> int:
    """Where a text first names a file; -1 if nowhere."""
    start = text.find(path)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(path) : start + len(path) + 2]
        if not re.match(r"[\w@+-]", before) and not re.match(r"[\w@+/-]|\.\w", after):
            return start
        start = text.find(path, start + 1)
    return -1


class Targets(Struct, frozen=True):
    """What of the future a handoff can hold: used later, known before, and not said by the goal.

    `known` are the files that the predecessor knew; `weights` of names are by rarity in it.
    """

    edit: frozenset[str]
    file: frozenset[str]
    cmd: frozenset[str]
    id: dict[str, float]
    known: frozenset[str]
    cwd: str = ""
    only: frozenset[str] | None = None
    """The names that are not in the repository's tree; None where the tree is not known."""


def whole_text(entries: Iterable[Entry]) -> str:
    """Everything that some entries hold."""
    parts = []
    for entry in entries:
        parts.append(entry.text)
        if entry.tool:
            parts += [given(entry.tool), entry.tool.output]
    return "\n".join(p for p in parts if p)


def targets(thread: Thread, future: Sequence[Entry], goal: str) -> Targets:
    """What counts for a predecessor, the entries that followed, and the goal between them."""
    text = whole_text(thread.entries)
    before, later = used(thread.entries, thread.cwd), used(future, thread.cwd)
    named = {p for p in later.opened | later.edited if p in before.opened or is_named(p, text)}
    fresh = {p for p in named if not is_named(p, goal)}
    seen_in = _seen_in(thread.entries, thread.cwd)
    wanted = (later.names & seen_in.keys()) - names(goal, thread.cwd)
    total = len(thread.entries)
    asked = _fold(goal)
    mentioned = _files(relative(p, thread.cwd) for p in _MENTION.findall(text))
    inside = {p for p in mentioned if not p.startswith(("/", "~", "..", "a/", "b/"))}
    return Targets(
        edit=frozenset(later.edited & fresh),
        file=frozenset(fresh),
        cmd=frozenset(c for c in later.commands & before.commands if c not in asked),
        id={n: math.log(1 + total / seen_in[n]) for n in sorted(wanted)},
        cwd=thread.cwd,
        known=frozenset(_whole(before.opened | named | inside)),
    )


def _seen_in(entries: Iterable[Entry], cwd: str) -> Counter[str]:
    """In how many entries each name stands."""
    found: Counter[str] = Counter()
    for entry in entries:
        found.update(names(whole_text((entry,)), cwd))
    return found


class Score(Struct, frozen=True):
    """The figures of one handoff in one case, 0 to 1; None where a case has no such target."""

    values: dict[str, float | None]
    tokens: int


def score(found: Targets, text: str, opened_later: frozenset[str], cited: str = "") -> Score:
    """How much of the targets a handoff holds. `cited` is the text of the entries it cites."""
    folded = _fold(text)
    places = {p: at for p in found.known | found.file if (at := _place(p, text)) >= 0}
    named = sorted(places, key=lambda p: (places[p], p))
    held = names(text, found.cwd)
    nothing_named = 0.0 if found.file else None
    values: dict[str, float | None] = {
        "edit": _share(found.edit & places.keys(), found.edit),
        "file": _share(found.file & places.keys(), found.file),
        "cmd": _share({c for c in found.cmd if c in folded}, found.cmd),
        "id": _weighted(found.id, held),
        "only": None
        if found.only is None
        else _weighted({n: w for n, w in found.id.items() if n in found.only}, held),
        "pfile": _share(opened_later & places.keys(), named, nothing_named),
        "id1": _weighted(found.id, held | names(cited, found.cwd)) if cited else None,
        "edit@5": _share(found.edit & set(named[:FIRST]), found.edit),
    }
    for column, count in PRECISIONS.items():
        first = named[:count]
        values[column] = _share(opened_later & set(first), first, nothing_named)
    return Score(values=values, tokens=tokens(text))


def _fold(text: str) -> str:
    """A text on one line, as commands are: each white space one blank, continued lines joined."""
    return " ".join(_CONTINUED.sub("", text).split())


def tokens(text: str) -> int:
    """The size of a text: characters / 4, rounded up."""
    return (len(text) + 3) // 4


def _share(held: Set[str], wanted: Collection[str], without: float | None = None) -> float | None:
    """How much of what is wanted is held; `without` if nothing is."""
    return len(held) / len(wanted) if wanted else without


def _weighted(wanted: dict[str, float], held: set[str]) -> float | None:
    total = sum(wanted.values())
    return sum(w for n, w in wanted.items() if n in held) / total if total else None
