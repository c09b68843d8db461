"""Facts: what can be derived from a thread without a model, in its own characters, with refs."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft import commands, said, statements, values
from tasuki.draft.command_kinds import strip_variables
from tasuki.draft.commands import Run
from tasuki.draft.earlier_handoffs import fold_earlier_handoffs as _earlier_handoffs
from tasuki.draft.earlier_handoffs import is_open
from tasuki.draft.files import file_facts, is_noise, is_outside, with_mentions
from tasuki.draft.repository import read_repository
from tasuki.draft.statements import Statement
from tasuki.draft.text import identifiers, sentences, shorten, speaks_of, terms
from tasuki.model import (
    Entry,
    Facts,
    FileFact,
    Lesson,
    Quote,
    RepositoryState,
    Revision,
    Thread,
    Todo,
)

_MAX_LESSONS = 12
NEAR_FAILURE = 6
"""Entries after a failure in which a sentence may explain it without naming anything of it."""
LEAST_AT_ONCE = 0.4
LEAST_REASON = 0.7
"""Weights under which a sentence says too little of why something failed: the first one after it, and others."""
_LESSON_RUNS = 800
"""Newest commands among which failures are looked for."""
_GREEN = ("test", "lint", "build")


class Derived(Struct, frozen=True):
    """Facts with the statements they were taken from, which the ranking weighs."""

    facts: Facts
    statements: tuple[Statement, ...]
    runs: tuple[Run, ...] = ()
    parent: str = ""
    """Id of the handoff that the thread began with, empty if it began with none."""


def derive(thread: Thread, revision: Revision | None = None, goal: str = "") -> Derived:
    """All facts of a thread. `revision` is what git says now, where somebody asked it.

    The goal only widens what is looked at: old entries that name its identifiers.
    """
    entries = thread.entries
    all_runs = commands.runs(entries)
    files, spoken_of = with_mentions(thread, file_facts(thread, all_runs))
    stated = [*statements.of_user(entries), *statements.of_assistant(entries, _focus(goal))]
    repository = read_repository(entries, thread.git_branch, thread.cwd)
    live = [c for c in repository.commits if not c.gone]
    commits = tuple(Quote(text=f"{c.hash} {c.subject}", ref=c.ref) for c in live if c.hash)
    todos, todos_ref = _todos(entries)
    last_green = next(
        (r.ref for r in reversed(all_runs) if r.check in _GREEN and r.known and r.ok), 0
    )
    subjects = commands.subjects(all_runs)
    revision = revision or Revision()
    folded, parent = _earlier_handoffs(entries)
    edited = [f for f in files if _is_kept(f)]
    facts = Facts(
        files=files,
        spoken_of=spoken_of,
        commands=commands.facts(all_runs),
        last_check=commands.last_checks(all_runs),
        unverified=tuple(f.path for f in edited if f.edits[-1] > last_green),
        uncommitted=tuple(f.path for f in edited if not _is_committed(f, repository)),
        todos=todos,
        todos_ref=todos_ref,
        requests=_quotes(stated, "request", by_user=True),
        constraints=_quotes(stated, "constraint"),
        decisions=_quotes(stated, "decision"),
        questions=_quotes(stated, "question"),
        findings=_quotes(stated, "finding"),
        next_steps=_quotes(stated, "next"),
        rejected=(*_quotes(stated, "rejected"), *_quotes(stated, "reversal")),
        lessons=_lessons(entries, all_runs),
        running=tuple(b for b in thread.background if b.state == "running"),
        artifacts=_artifacts(thread),
        previous=tuple(q for q in folded if not _is_done(q, subjects)),
        subjects=subjects,
        repository=repository,
        revision=Revision(
            branch=repository.branch,
            head=thread.git_head,
            commits=commits,
            branch_now=revision.branch_now,
            head_now=revision.head_now,
            dirty_now=revision.dirty_now,
            repository=revision.repository,
        ),
        skill=thread.last_skill,
    )
    return Derived(facts=facts, statements=tuple(stated), runs=tuple(all_runs), parent=parent)


def _is_kept(file: FileFact) -> bool:
    """Whether a file of the project was changed and left so: not put back, not made and removed again."""
    if (
        not file.edits
        or file.edits[-1] <= file.undone
        or is_noise(file.path)
        or is_outside(file.path)
    ):
        return False
    return not (file.deleted and file.created)


def _is_committed(file: FileFact, repository: RepositoryState) -> bool:
    """Whether a commit took a file in after its last edit, or git called the tree clean since."""
    last = file.edits[-1]
    if repository.clean_ref > last:
        return True
    return any(
        ref > last and (not added or any(_is_added(file.path, spec) for spec in added))
        for ref, added in repository.staged
    )


def _is_added(path: str, spec: str) -> bool:
    """Whether what `git add` was given takes a file in: its path, a folder above it, a pattern."""
    spec = spec.removeprefix("./").rstrip("/")
    if "*" in spec or spec in ("", "."):
        return True
    return (
        path == spec
        or path.startswith(f"{spec}/")
        or path.endswith(f"/{spec}")
        or spec.endswith(f"/{path}")
        or f"/{spec}/" in path
    )


def with_values(derived: Derived, cwd: str) -> Derived:
    """The same with the values that occur nowhere in the working tree; asks git."""
    found = values.candidates(derived.statements, derived.facts.revision.commits)
    facts = replace(derived.facts, values=values.only_in_thread(cwd, found))
    return replace(derived, facts=facts)


def _focus(goal: str) -> list[str]:
    """Identifiers of a goal that are long enough to mean something."""
    return [name for name in dict.fromkeys(identifiers(goal[:20_000])) if len(name) >= 5][:8]


def _quotes(stated: Iterable[Statement], kind: str, by_user: bool = False) -> tuple[Quote, ...]:
    return tuple(s.quote for s in stated if s.kind == kind and (s.by_user or not by_user))


def _todos(entries: Sequence[Entry]) -> tuple[tuple[Todo, ...], int]:
    """The todo list or plan as the last call left it, and that call."""
    for entry in reversed(entries):
        if entry.tool and entry.tool.todos is not None and entry.tool.status != "error":
            return entry.tool.todos, entry.ref
    return (), 0


def _artifacts(thread: Thread) -> tuple[Quote, ...]:
    """Plans and scratch files with their paths."""
    found: dict[str, int] = dict.fromkeys(thread.artifacts, 0)
    for entry in thread.entries:
        for change in entry.tool.changes if entry.tool else ():
            if is_noise(change.path) or "/plans/" in change.path:
                found[change.path] = entry.ref
    return tuple(Quote(text=path, ref=ref) for path, ref in found.items())


def _lessons(entries: Sequence[Entry], all_runs: Sequence[Run]) -> tuple[Lesson, ...]:
    """Commands that failed, and whether the same command passed later, newest first.

    A failed check counts as passed with the next passing check of its kind, a failed merge or
    push with the next commit. Other commands that failed once, long ago, were only tried.
    """
    passed: dict[str, int] = {}
    lessons: dict[str, Lesson] = {}
    texts = [e for e in entries if e.kind == "assistant"]
    last = entries[-1].ref if entries else 0
    counts: Counter[str] = Counter()
    for run in all_runs[: -_LESSON_RUNS - 1 : -1]:
        if len(lessons) >= _MAX_LESSONS:
            break
        key = strip_variables(commands.base_command(run.command))
        kind = "commit" if key.startswith("git ") else run.check
        if not run.known:
            continue
        if run.ok:
            passed[key] = run.ref
            passed |= {f"kind:{kind}": run.ref for kind in commands.check_kinds(run.command)}
        elif not run.navigation and key not in lessons:
            counts[key] += 1
            after = passed.get(key) or (passed.get(f"kind:{kind}", 0) if kind else 0)
            if after or run.check or counts[key] > 1 or run.ref > last - max(20, last // 7):
                lessons[key] = _lesson(run, after, texts)
    return tuple(lessons.values())


def _lesson(run: Run, passed: int, texts: Sequence[Entry]) -> Lesson:
    error = commands.error_of(run)
    words = _explaining(texts, run.ref, passed or run.ref + 12, f"{run.command} {error}")
    return Lesson(
        command=run.command,
        error=error,
        failed=run.ref,
        passed=passed,
        words=words.text if words else "",
        words_ref=words.ref if words else 0,
    )


def _explaining(texts: Sequence[Entry], after: int, before: int, failure: str) -> Quote | None:
    """The sentence between two entries that says most about why: near the failure, or naming it."""
    names = set(identifiers(failure))
    best: tuple[float, Quote] | None = None
    for entry in texts:
        if after < entry.ref <= min(before, after + 40):
            for sentence in sentences(entry.text[:20_000]):
                weight = said.weight_assistant(sentence, said.marks(sentence))
                at_once = entry.ref - after <= 2
                if weight < (LEAST_AT_ONCE if at_once else LEAST_REASON):
                    continue
                shared = any(n in sentence for n in names)
                if not shared and entry.ref - after > NEAR_FAILURE:
                    continue
                weight += 0.8 * shared - 0.06 * (entry.ref - after)
                if best is None or weight > best[0]:
                    best = (weight, Quote(text=shorten(sentence), ref=entry.ref))
    return best[1] if best else None


def _is_done(quote: Quote, subjects: Iterable[Quote]) -> bool:
    """Whether a commit of the thread speaks of what an earlier brief calls open."""
    if not is_open(quote.text):
        return False
    about = set(terms(quote.text.partition(": ")[2]))
    return any(speaks_of(subject.text, about) for subject in subjects)
