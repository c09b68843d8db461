"""What the continuation benchmark counts. The tokeniser and the filters here *are* the metric.

`VERSION` changes with anything in this file that changes a figure, and such a change never goes
into the same commit as a change of a method. Nothing here is shared with the ranking: what
measures must not be tuned with what is measured.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set

from msgspec import Struct

from tasuki.model import Entry, Thread, ToolCall

VERSION = 1
COLUMNS = ("edit", "file", "cmd", "id", "only", "pfile", "id1", "edit@5")
"""Targets in the order they are printed; `tokens` stands beside them."""
FIRST = 5
"""Files named first that `edit@5` looks at."""

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

_PIPE_TAIL = re.compile(r"(?<!\|)\|(?!\|).*$", re.DOTALL)
_REDIRECTION = re.compile(r"\s*(?:\d?>>?(?:&\d|\s*\S+)|<\s*/dev/null)")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?.*", re.DOTALL)
_SEPARATOR = re.compile(r"\s*(?:&&|\|\||;|\n)\s*")
_NAVIGATION = frozenset(
    "cd ls ll pwd cat head tail sed nl grep egrep rg ag find fd tree wc which file stat echo printf awk jq sort uniq less "
    "more du df env whoami date sleep true false type mkdir export set cut tr xargs touch cp mv rm test [ tee diff read "
    "for do done if then else fi while case esac { } ( ) exit return source . wait kill ps".split()
)
_BOOKKEEPING = frozenset(
    "status log diff show branch remote rev-parse ls-files blame add fetch grep reflog describe config stash checkout "
    "switch commit push pull merge rebase reset restore tag worktree cherry-pick merge-base cat-file ls-tree".split()
)
_VARIABLE = re.compile(r"^[A-Z_][A-Z0-9_]*=\S*\s+")
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


def segments(command: str) -> list[str]:
    """The parts of a shell command that do something: no navigation, git bookkeeping, pipe tails."""
    found = []
    for part in _SEPARATOR.split(_HEREDOC.sub("", command)):
        bare = " ".join(_REDIRECTION.sub("", _PIPE_TAIL.sub("", part)).split()).strip("() ")
        words = _VARIABLE.sub("", bare).split()
        if not words or words[0] in _NAVIGATION or words[0].startswith(("#", "-", "$")):
            continue
        if words[0] == "git" and _git_verb(words) in _BOOKKEEPING:
            continue
        if len(bare) >= 4 and len(bare) <= 400:
            found.append(bare)
    return found


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
            commands.update(segments(call.command))
            opened.update(shell_reads(call.command, cwd))
        found |= names(given(call), cwd)
    return Used(
        edited=frozenset(_files(edited)),
        opened=frozenset(_files(edited | opened)),
        commands=frozenset(commands),
        names=frozenset(found),
    )


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
    start = text.find(path)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(path) : start + len(path) + 2]
        if not re.match(r"[\w@+-]", before) and not re.match(r"[\w@+/-]|\.\w", after):
            return True
        start = text.find(path, start + 1)
    return False


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
    mentioned = _files(relative(p, thread.cwd) for p in _MENTION.findall(text))
    inside = {p for p in mentioned if not p.startswith(("/", "~", "..", "a/", "b/"))}
    return Targets(
        edit=frozenset(later.edited & fresh),
        file=frozenset(fresh),
        cmd=frozenset(
            c for c in later.commands & before.commands if c not in " ".join(goal.split())
        ),
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
    folded = " ".join(text.split())
    named = {p for p in found.known | found.file if is_named(p, text)}
    held = names(text, found.cwd)
    first = sorted(named, key=lambda p: _place(p, text))[:FIRST]
    values: dict[str, float | None] = {
        "edit": _share(found.edit & named, found.edit),
        "file": _share(found.file & named, found.file),
        "cmd": _share({c for c in found.cmd if c in folded}, found.cmd),
        "id": _weighted(found.id, held),
        "only": None
        if found.only is None
        else _weighted({n: w for n, w in found.id.items() if n in found.only}, held),
        "pfile": len(named & opened_later) / len(named) if named else (0.0 if found.file else None),
        "id1": _weighted(found.id, held | names(cited, found.cwd)) if cited else None,
        "edit@5": _share(found.edit & set(first), found.edit),
    }
    return Score(values=values, tokens=tokens(text))


def tokens(text: str) -> int:
    """The size of a text: characters / 4, rounded up."""
    return (len(text) + 3) // 4


def _place(path: str, text: str) -> int:
    return text.find(path)


def _share(held: Iterable[str], wanted: frozenset[str]) -> float | None:
    return len(set(held)) / len(wanted) if wanted else None


def _weighted(wanted: dict[str, float], held: set[str]) -> float | None:
    total = sum(wanted.values())
    return sum(w for n, w in wanted.items() if n in held) / total if total else None
