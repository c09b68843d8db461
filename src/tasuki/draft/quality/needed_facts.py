"""The facts of a thread that a successor needs, and whether a document states them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tasuki.draft.authors.author import LASTING_WEIGHT, AuthorTask
from tasuki.draft.claims.support import weigh_stems
from tasuki.draft.facts.commands import normalize_command, shorten_command
from tasuki.draft.facts.files import is_noise
from tasuki.draft.quality.document_reader import HandoffDocument
from tasuki.draft.text.entries import contains_verbatim
from tasuki.draft.text.split import fold_for_comparison, fold_whitespace, shorten
from tasuki.model import CommandFact, Facts, FileFact
from tasuki.patterns import compile_pattern

MAX_FILES, MAX_COMMITTED_FILES, MAX_WISHES, MAX_TODOS = 8, 4, 6, 8
MAX_FAILURES, MAX_COMMITS, MAX_RUNNING = 4, 3, 3
"""Facts of each kind that are required: the newest, or the most important. Files committed
since count only if they are among the last edited.
"""
QUOTE_WORDS = 5
"""Consecutive words that make a part of a wish or error a quote of it."""
MIN_SHARE = 0.5
"""Share of the telling words of a wish, todo or error that one line must contain."""
LONG_LINE = 1_200
"""Characters of a line in which words are counted; longer ones contain every word."""
KIND_ORDER = ("check", "reversal", "wish", "failure", "todo", "running", "file", "commit")
"""Kinds of facts, the most costly to lack first."""

_GOOD = compile_pattern(
    r"\b(?:pass(?:e[sd]|ing)?|green|ok|okay|clean(?:ly)?|succe(?:ss\w*|eds?|eded)|works?|compiles|good)\b|✓|✅|\b(?:0|no|zero)"
    r" (?:\w+ )?(?:errors?|issues?|problems?|failures?|failed|failing)\b|bestanden|erfolgreich|grün|通过|成功",
    re.IGNORECASE,
)
_BAD = compile_pattern(
    r"\b(?:fail(?:s|ed|ing|ures?)?|red|broken|errors?|crash\w*|does(?: not|n['’]t) (?:compile|build|pass|work)"
    r"|not (?:pass\w*|green|compil\w*|building|working))\b|✗|❌|fehlgeschlagen|schlägt|rot\b|失败|失敗",
    re.IGNORECASE,
)
_NONE_FAILED = compile_pattern(
    r"\b(?:0|no|zero|without|never|nothing) (?:\w+ )?(?:errors?|issues?|problems?|fail\w*)\b",
    re.IGNORECASE,
)
_NOT_GOOD = compile_pattern(
    r"(?:\bnot|n['’]t|\bno longer|\bnever)\s+(?:\w+\s+)?(?:pass\w*|green|ok|clean|compiles?|works?|succe\w+)\b",
    re.IGNORECASE,
)
_CHECK_WORDS = {
    "test": compile_pattern(r"\btests?\b|\bsuite\b|测试|テスト", re.IGNORECASE),
    "lint": compile_pattern(r"\blint\w*|\btype.?check\w*|\btypes?\b|\bformat\w*|\bchecks?\b", re.IGNORECASE),
    "build": compile_pattern(r"\bbuil[dt]\w*|\bcompil\w*", re.IGNORECASE),
}  # fmt: skip


class NeededFact(Struct, frozen=True):
    """One fact, whether the document states it and on which line; `why` not, if it does not."""

    kind: str
    text: str
    refs: tuple[int, ...]
    line: int = 0
    why: str = ""


_FIGURE = compile_pattern(r"(?<![\w.])\d+(?:\.\d+)*(?![\w.)])|(?<![\w.])\d+(?:\.\d+)*(?=[.!?]\W*$)")
"""A number in a sentence, without that of a list's item before it."""


class DocumentLookup:
    """Finds in one document whether it states what a thread did."""

    def __init__(self, document: HandoffDocument, goal: str) -> None:
        rows = [(line.number, fold_whitespace(line.text)) for line in document.lines if line.text]
        if goal and goal not in document.text:
            rows.append((0, fold_whitespace(goal)))
        self.rows = rows
        self.lower_rows = [(n, text.lower()) for n, text in rows]
        self.whole = "\n".join(text for _, text in rows)

    def find_named(self, forms: Iterable[str]) -> int | None:
        """Return the first line that contains one of some names, or None."""
        forms = [form for form in forms if form]
        if not any(form in self.whole and contains_verbatim(form, self.whole) for form in forms):
            return None
        for number, text in self.rows:
            if any(form in text and contains_verbatim(form, text) for form in forms):
                return number
        return None

    def find_spoken(self, words: str, min_share: float = MIN_SHARE) -> int | None:
        """Return the line with most telling words of a sentence and all its numbers, or None."""
        weights = weigh_stems(words)
        whole = sum(weights.values())
        forms = (rf"(?<![\d.]){re.escape(n)}(?!\.?\d)" for n in _FIGURE.findall(words))
        figures = list(map(re.compile, forms))
        best, best_line = 0.0, None
        for number, text in self.lower_rows:
            starts = range(0, max(len(text), 1), LONG_LINE)
            for part in (text[max(0, start - 100) : start + LONG_LINE] for start in starts):
                if not all(figure.search(part) for figure in figures):
                    continue  # "never use port 80" says nothing about port 23
                share = sum(w for stem, w in weights.items() if stem in part) / (whole or 1.0)
                if share > best:
                    best, best_line = share, number
        return best_line if whole and best >= min_share else None

    def find_quoted(self, words: str, min_words: int = QUOTE_WORDS) -> int | None:
        """Return the line that contains a sentence, or enough consecutive words of it, or None."""
        wanted = fold_for_comparison(words.removesuffix(" …")).lower().split()
        size = min(min_words, len(wanted))
        runs = {" ".join(wanted[n : n + size]) for n in range(len(wanted) - size + 1)}
        runs.discard("")
        found = (number for number, text in self.lower_rows if any(run in text for run in runs))
        return next(found, None)

    def find_said(self, words: str) -> int | None:
        """Return the line that quotes a sentence, or contains most of its words."""
        line = self.find_quoted(words)
        return self.find_spoken(words) if line is None else line

    def find_result(self, check: CommandFact) -> tuple[int | None, str]:
        """Return the line that gives a check's result, or what is wrong if none is right."""
        base = normalize_command(check.command)
        kind = _CHECK_WORDS.get(check.check)
        wrong = 0
        for number, text in self.rows:
            if not (_is_command_named(base, text) or (kind and kind.search(text))):
                continue
            good, bad = _judge_line(text)
            if (good if check.ok else bad) or (check.outcome and check.outcome in text):
                return number, ""
            opposite = bad and _is_command_named(base, text) if check.ok else good
            wrong = wrong or (number if opposite else 0)
        came = "passed" if check.ok else "FAILED"
        if wrong:
            return None, f"the document says otherwise, line {wrong}"
        return None, f"the document does not say that it {came}"


def list_needed_facts(task: AuthorTask, lookup: DocumentLookup) -> list[NeededFact]:
    """Return every required fact, in the order of `KIND_ORDER`."""
    thread_facts = task.derived.facts
    found = [
        *_list_checks(thread_facts, lookup),
        *_list_wishes(task, lookup),
        *_list_failures(thread_facts, lookup),
        *_list_todos(thread_facts, lookup),
        *_list_running(thread_facts, lookup),
        *_list_files(thread_facts, lookup),
        *_list_commits(thread_facts, lookup),
    ]
    return sorted(found, key=lambda fact: KIND_ORDER.index(fact.kind))


def _build_fact(
    kind: str, text: str, refs: Sequence[int], line: int | None, why: str = ""
) -> NeededFact:
    missing = "" if line is not None else why or "not in the document"
    return NeededFact(kind, fold_whitespace(text), tuple(refs), line or 0, missing)


def _list_checks(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    for check in facts.last_check:
        if not check.known:
            continue
        if check.ok and check.check != "test" and len(facts.last_check) > 1:
            continue  # The tests that ran with it show this as well.
        line, why = lookup.find_result(check)
        result = "passed" if check.ok else "FAILED"
        text = f"last {check.check}: `{shorten_command(check.command, 120)}` {result}"
        yield _build_fact("check", text, check.refs[-1:], line, why)


def _list_wishes(task: AuthorTask, lookup: DocumentLookup) -> Iterator[NeededFact]:
    """Yield the most important lasting wishes, and the newest reversal. The reversal outweighs what was said before."""
    lasting = [s for _, s in task.inventory.list_lasting_wishes()]
    own = (s for s in task.open_statements if s.by_user and s.kind == "reversal" and s.weight > 0)
    newest = list(own)[-1:]
    standing = [s for s in lasting if s not in newest and not s.text.rstrip("\"')").endswith("?")]
    rest = sorted(standing, key=lambda s: -task.relevance.score_statement(s))[:MAX_WISHES]
    rest.sort(key=lambda s: (s.weight < LASTING_WEIGHT, -s.ref))
    for kind, stated in (("reversal", newest), ("wish", rest)):
        for s in stated:
            yield _build_fact(kind, f'"{s.text}"', (s.ref,), lookup.find_said(s.text))


def _list_failures(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    """Yield failures without a later pass, other than those of the last checks."""
    checks = {check.refs[-1] for check in facts.last_check}
    still = [x for x in facts.lessons if not x.passed and x.error and x.failed not in checks]
    for lesson in still[:MAX_FAILURES]:
        base = normalize_command(lesson.command)
        named = (n for n, t in lookup.rows if _is_command_named(base, t) and _judge_line(t)[1])
        line = next(named, None)
        line = lookup.find_said(lesson.error) if line is None else line
        text = f"`{shorten_command(lesson.command, 100)}`: {shorten(lesson.error, 120)}"
        yield _build_fact("failure", text, (lesson.failed,), line)


def _list_todos(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    left = [t for t in facts.todos if t.status in ("in_progress", "pending")]
    left.sort(key=lambda todo: todo.status != "in_progress")
    for todo in left[:MAX_TODOS]:
        text = f"{todo.status.replace('_', ' ')}: {shorten(todo.text, 160)}"
        yield _build_fact("todo", text, (facts.todos_ref,), lookup.find_said(todo.text))


def _list_running(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    for item in facts.running[-MAX_RUNNING:]:
        line = lookup.find_named([fold_whitespace(item.label), normalize_command(item.label)])
        line = lookup.find_spoken(item.label) if line is None else line
        yield _build_fact("running", f"{item.kind} `{shorten(item.label, 120)}`", (item.ref,), line)


def list_edited_files(facts: Facts) -> list[FileFact]:
    """Return files that a thread changed and left changed, the most recently edited first."""
    left = [
        f
        for f in facts.files
        if f.edits and not f.deleted and f.edits[-1] > f.undone and not is_noise(f.path)
    ]
    return sorted(left, key=lambda f: -f.edits[-1])


def _list_files(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    names = Counter(f.path.rpartition("/")[2] for f in facts.files)
    open_ = set(facts.uncommitted)
    for n, file in enumerate(list_edited_files(facts)[:MAX_FILES]):
        if n >= MAX_COMMITTED_FILES and file.path not in open_:
            continue
        forms = [file.path, *_list_tails(file.path, facts.files)]
        base = file.path.rpartition("/")[2]
        forms += [base] if names[base] == 1 else []
        state = ", uncommitted" if file.path in open_ and facts.revision.commits else ""
        text = f"`{file.path}` (edited {len(file.edits)}×{state})"
        yield _build_fact("file", text, file.edits[-1:], lookup.find_named(forms))


def _list_tails(path: str, files: Sequence[FileFact]) -> Iterator[str]:
    """Yield the ends of a path, of two parts or more, that are the end of no other known file."""
    parts = path.split("/")
    for start in range(1, len(parts) - 1):
        tail = "/".join(parts[start:])
        if sum(f.path.endswith(f"/{tail}") or f.path == tail for f in files) == 1:
            yield tail


def _list_commits(facts: Facts, lookup: DocumentLookup) -> Iterator[NeededFact]:
    for commit in reversed(facts.revision.commits[-MAX_COMMITS:]):
        hash_, _, subject = commit.text.partition(" ")
        line = lookup.find_named([hash_[:7], hash_, subject])
        line = lookup.find_spoken(subject, 0.6) if line is None else line
        yield _build_fact("commit", f"`{hash_}` {shorten(subject, 100)}", (commit.ref,), line)


def _is_command_named(base: str, text: str) -> bool:
    """Return whether a line names a command by its base form, or by its start if it is long."""
    head = shorten(base, 120).removesuffix(" …")
    return bool(head) and head in text


def _judge_line(text: str) -> tuple[bool, bool]:
    """Return whether a line reports success, and whether it reports failure."""
    good, bad = _NOT_GOOD.sub(" ", text), _NONE_FAILED.sub(" ", text)
    return bool(_GOOD.search(good)), bool(_BAD.search(bad) or _NOT_GOOD.search(text))
