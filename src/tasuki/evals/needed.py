"""The facts of a thread that a successor needs, and whether a document tells them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tasuki.draft.authors.inventory import STANDING
from tasuki.draft.authors.task import Task
from tasuki.draft.commands import base_command, short_command
from tasuki.draft.files import is_noise
from tasuki.draft.occurrence import stands
from tasuki.draft.statements import Statement
from tasuki.draft.support import telling
from tasuki.draft.text import comparable, one_line, shorten
from tasuki.evals.written import Document
from tasuki.model import CommandFact, Facts, FileFact

FILES, LAST_FILES, WISHES, TODOS, FAILURES, COMMITS, RUNNING = 8, 4, 6, 8, 4, 3, 3
"""Facts of each kind that are asked for, the newest, or those of most worth.

Of files that were committed since, only those that are among the last edited."""
QUOTED = 5
"""Words in a row that make a part of a wish or error a quote of it."""
MOST = 0.5
"""Share of the telling words of a wish, todo or error that one line must hold."""
LONG_LINE = 1_200
"""Characters of a line in which words are counted; in more of them every word occurs."""
ORDER = ("check", "reversal", "wish", "failure", "todo", "running", "file", "commit")
"""Kinds of facts, what costs a successor most to lack first."""

_GOOD = re.compile(
    r"\b(?:pass(?:e[sd]|ing)?|green|ok|okay|clean(?:ly)?|succe(?:ss\w*|eds?|eded)|works?|compiles|good)\b|✓|✅|\b(?:0|no|zero)"
    r" (?:\w+ )?(?:errors?|issues?|problems?|failures?|failed|failing)\b|bestanden|erfolgreich|grün|通过|成功",
    re.IGNORECASE,
)
_BAD = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?|red|broken|errors?|crash\w*|does(?: not|n['’]t) (?:compile|build|pass|work)"
    r"|not (?:pass\w*|green|compil\w*|building|working))\b|✗|❌|fehlgeschlagen|schlägt|rot\b|失败|失敗",
    re.IGNORECASE,
)
_NONE_FAILED = re.compile(
    r"\b(?:0|no|zero|without|never|nothing) (?:\w+ )?(?:errors?|issues?|problems?|fail\w*)\b", re.IGNORECASE
)  # fmt: skip
_NOT_GOOD = re.compile(
    r"(?:\bnot|n['’]t|\bno longer|\bnever)\s+(?:\w+\s+)?(?:pass\w*|green|ok|clean|compiles?|works?|succe\w+)\b",
    re.IGNORECASE,
)
_SPOKEN = {
    "test": re.compile(r"\btests?\b|\bsuite\b|测试|テスト", re.IGNORECASE),
    "lint": re.compile(r"\blint\w*|\btype.?check\w*|\btypes?\b|\bformat\w*|\bchecks?\b", re.IGNORECASE),
    "build": re.compile(r"\bbuil[dt]\w*|\bcompil\w*", re.IGNORECASE),
}  # fmt: skip


class Needed(Struct, frozen=True):
    """One fact, whether the document tells it and on which line; `why` not, where it does not."""

    kind: str
    text: str
    refs: tuple[int, ...]
    line: int = 0
    why: str = ""


_FIGURE = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w.)])|(?<![\w.])\d+(?:\.\d+)*(?=[.!?]\W*$)")
"""A number in a sentence, without that of a list's item before it."""


class Telling:
    """Looks up in one document whether it tells what a thread did."""

    def __init__(self, document: Document, goal: str) -> None:
        rows = [(line.number, one_line(line.text)) for line in document.lines if line.text]
        if goal and goal not in document.text:
            rows.append((0, one_line(goal)))
        self.rows = rows
        self.low = [(n, text.lower()) for n, text in rows]
        self.whole = "\n".join(text for _, text in rows)

    def named(self, forms: Iterable[str]) -> int | None:
        """The first line in which one of some names stands; None if none does."""
        forms = [form for form in forms if form]
        if not any(form in self.whole and stands(form, self.whole) for form in forms):
            return None
        for number, text in self.rows:
            if any(form in text and stands(form, text) for form in forms):
                return number
        return None

    def spoken(self, words: str, most: float = MOST) -> int | None:
        """The line that holds most of the telling words of a sentence, and its numbers; None if none does."""
        weights = telling(words)
        whole = sum(weights.values())
        figures = [
            re.compile(rf"(?<![\d.]){re.escape(n)}(?!\.?\d)") for n in _FIGURE.findall(words)
        ]
        best, at = 0.0, None
        for number, text in self.low:
            for part in _windows(text):
                if not all(figure.search(part) for figure in figures):
                    continue  # "never use port 80" does not tell of port 23
                share = sum(w for stem, w in weights.items() if stem in part) / (whole or 1.0)
                if share > best:
                    best, at = share, number
        return at if whole and best >= most else None

    def quoted(self, words: str, least: int = QUOTED) -> int | None:
        """The line that holds a sentence, or so many words of it in a row; None if none does."""
        wanted = comparable(words.removesuffix(" …")).lower().split()
        size = min(least, len(wanted))
        runs = {" ".join(wanted[n : n + size]) for n in range(len(wanted) - size + 1)}
        runs.discard("")
        found = (number for number, text in self.low if any(run in text for run in runs))
        return next(found, None)

    def said(self, words: str) -> int | None:
        """The line that quotes a sentence, or speaks of most of what it says."""
        line = self.quoted(words)
        return self.spoken(words) if line is None else line

    def result(self, check: CommandFact) -> tuple[int | None, str]:
        """The line that says how a check went, and what is wrong where none says it right."""
        base = base_command(check.command)
        kind = _SPOKEN.get(check.check)
        about = [(n, t) for n, t in self.rows if _names(base, t) or (kind and kind.search(t))]
        wrong = 0
        for number, text in about:
            good, bad = _verdict(text)
            if (good if check.ok else bad) or (check.outcome and check.outcome in text):
                return number, ""
            opposite = bad and _names(base, text) if check.ok else good
            wrong = wrong or (number if opposite else 0)
        came = "passed" if check.ok else "FAILED"
        if wrong:
            return None, f"the document says otherwise, line {wrong}"
        return None, f"the document does not say that it {came}"


def facts(task: Task, told: Telling) -> list[Needed]:
    """Every fact that is asked for, in the order of `ORDER`."""
    known = task.derived.facts
    found = [
        *_checks(known, told),
        *_wishes(task, told),
        *_failures(known, told),
        *_todos(known, told),
        *_running(known, told),
        *_files(known, told),
        *_commits(known, told),
    ]
    return sorted(found, key=lambda fact: ORDER.index(fact.kind))


def _fact(kind: str, text: str, refs: Sequence[int], line: int | None, why: str = "") -> Needed:
    missing = "" if line is not None else why or "not in the document"
    return Needed(kind, one_line(text), tuple(refs), line or 0, missing)


def _checks(known: Facts, told: Telling) -> Iterator[Needed]:
    for check in known.last_check:
        if check.ok and check.check != "test" and len(known.last_check) > 1:
            continue  # What the tests that ran beside it tell as well.
        line, why = told.result(check)
        came = "passed" if check.ok else "FAILED"
        text = f"last {check.check}: `{short_command(check.command, 120)}` {came}"
        yield _fact("check", text, check.refs[-1:], line, why)


def _wishes(task: Task, told: Telling) -> Iterator[Needed]:
    """The standing wishes of most worth, and the newest reversal, which outweighs what was said before."""
    standing = [s for _, s in task.inventory.standing() if not s.text.rstrip("\"')").endswith("?")]
    taken_back = [s for s in task.stated if s.by_user and s.kind == "reversal" and s.weight > 0]
    newest = taken_back[-1:]
    rest = sorted(
        (s for s in standing if s not in newest), key=lambda s: -task.relevance.statement(s)
    )
    for statement in newest:
        yield _wish("reversal", statement, told)
    for statement in sorted(rest[:WISHES], key=lambda s: (s.weight < STANDING, -s.ref)):
        yield _wish("wish", statement, told)


def _wish(kind: str, statement: Statement, told: Telling) -> Needed:
    return _fact(kind, f'"{statement.text}"', (statement.ref,), told.said(statement.text))


def _failures(known: Facts, told: Telling) -> Iterator[Needed]:
    """Failures that nothing passed since, other than those of the last checks."""
    checks = {check.refs[-1] for check in known.last_check}
    still = [x for x in known.lessons if not x.passed and x.error and x.failed not in checks]
    for lesson in still[:FAILURES]:
        base = base_command(lesson.command)
        line = next((n for n, t in told.rows if _names(base, t) and _verdict(t)[1]), None)
        line = told.said(lesson.error) if line is None else line
        text = f"`{short_command(lesson.command, 100)}`: {shorten(lesson.error, 120)}"
        yield _fact("failure", text, (lesson.failed,), line)


def _todos(known: Facts, told: Telling) -> Iterator[Needed]:
    left = [t for t in known.todos if t.status in ("in_progress", "pending")]
    left.sort(key=lambda todo: todo.status != "in_progress")
    for todo in left[:TODOS]:
        text = f"{todo.status.replace('_', ' ')}: {shorten(todo.text, 160)}"
        yield _fact("todo", text, (known.todos_ref,), told.said(todo.text))


def _running(known: Facts, told: Telling) -> Iterator[Needed]:
    for item in known.running[-RUNNING:]:
        line = told.named([one_line(item.label), base_command(item.label)])
        line = told.spoken(item.label) if line is None else line
        yield _fact("running", f"{item.kind} `{shorten(item.label, 120)}`", (item.ref,), line)


def edited(known: Facts) -> list[FileFact]:
    """Files that a thread changed and left changed, the most lately edited first."""
    left = [
        f
        for f in known.files
        if f.edits and not f.deleted and f.edits[-1] > f.undone and not is_noise(f.path)
    ]
    return sorted(left, key=lambda f: -f.edits[-1])


def _files(known: Facts, told: Telling) -> Iterator[Needed]:
    names = Counter(f.path.rpartition("/")[2] for f in known.files)
    open_ = set(known.uncommitted)
    for n, file in enumerate(edited(known)[:FILES]):
        if n >= LAST_FILES and file.path not in open_:
            continue
        told_by = [file.path, *_tails(file.path, known.files)]
        base = file.path.rpartition("/")[2]
        told_by += [base] if names[base] == 1 else []
        state = ", uncommitted" if file.path in open_ and known.revision.commits else ""
        text = f"`{file.path}` (edited {len(file.edits)}×{state})"
        yield _fact("file", text, file.edits[-1:], told.named(told_by))


def _tails(path: str, files: Sequence[FileFact]) -> Iterator[str]:
    """The ends of a path, of two parts or more, that are the end of no other known file."""
    parts = path.split("/")
    for start in range(1, len(parts) - 1):
        tail = "/".join(parts[start:])
        if sum(f.path.endswith(f"/{tail}") or f.path == tail for f in files) == 1:
            yield tail


def _commits(known: Facts, told: Telling) -> Iterator[Needed]:
    for commit in reversed(known.revision.commits[-COMMITS:]):
        hash_, _, subject = commit.text.partition(" ")
        line = told.named([hash_[:7], hash_, subject])
        line = told.spoken(subject, 0.6) if line is None else line
        yield _fact("commit", f"`{hash_}` {shorten(subject, 100)}", (commit.ref,), line)


def _names(base: str, text: str) -> bool:
    """Whether a line names a command by its base form, or by its first words where it is long."""
    head = shorten(base, 120).removesuffix(" …")
    return bool(head) and head in text


def _verdict(text: str) -> tuple[bool, bool]:
    """Whether a line speaks of success, and of failure."""
    good, bad = _NOT_GOOD.sub(" ", text), _NONE_FAILED.sub(" ", text)
    return bool(_GOOD.search(good)), bool(_BAD.search(bad) or _NOT_GOOD.search(text))


def _windows(text: str) -> Iterator[str]:
    for start in range(0, max(len(text), 1), LONG_LINE):
        yield text[max(0, start - 100) : start + LONG_LINE]
