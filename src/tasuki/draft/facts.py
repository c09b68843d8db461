"""Facts: what can be derived from a thread without a model, in its own characters, with refs."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft import commands, said, statements, values
from tasuki.draft.brief import handoff_of
from tasuki.draft.commands import Run
from tasuki.draft.files import file_facts, is_noise
from tasuki.draft.statements import Statement
from tasuki.draft.text import identifiers, sentences, shorten
from tasuki.model import Entry, Facts, Lesson, Quote, Revision, Thread, Todo

_FOLDED_SECTIONS = (
    "state of the work", "what the user asked for and ruled", "key decisions",
    "open questions / risks", "context (from previous thread)", "previous handoff",
)  # fmt: skip
_GOAL_HEADING = "\n## Next Goal (verbatim"
_MAX_LESSONS = 12
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
    files = file_facts(thread, all_runs)
    stated = [*statements.of_user(entries), *statements.of_assistant(entries, _focus(goal))]
    commits = commands.commits(all_runs)
    todos, todos_ref = _todos(entries)
    last_commit = commits[-1].ref if commits else 0
    last_green = next(
        (r.ref for r in reversed(all_runs) if r.check in _GREEN and r.known and r.ok), 0
    )
    revision = revision or Revision()
    folded, parent = _earlier_handoffs(entries)
    edited = [f for f in files if f.edits and f.edits[-1] > f.undone and not is_noise(f.path)]
    facts = Facts(
        files=files,
        commands=commands.facts(all_runs),
        last_check=commands.last_checks(all_runs),
        unverified=tuple(f.path for f in edited if f.edits[-1] > last_green),
        uncommitted=tuple(f.path for f in edited if f.edits[-1] > last_commit),
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
        previous=folded,
        revision=Revision(
            branch=thread.git_branch,
            head=thread.git_head,
            commits=commits,
            branch_now=revision.branch_now,
            head_now=revision.head_now,
            dirty_now=revision.dirty_now,
            repository=revision.repository,
        ),
        skill=thread.skills[-1] if thread.skills else "",
    )
    return Derived(facts=facts, statements=tuple(stated), runs=tuple(all_runs), parent=parent)


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
        key = commands.base_command(run.command)
        kind = "commit" if key.startswith("git ") else run.check
        if not run.known:
            continue
        if run.ok:
            passed[key] = run.ref
            passed[f"kind:{run.check}"] = run.ref
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
                if weight < 0.85:
                    continue
                weight += 0.8 * any(n in sentence for n in names) - 0.06 * (entry.ref - after)
                if best is None or weight > best[0]:
                    best = (weight, Quote(text=shorten(sentence), ref=entry.ref))
    return best[1] if best else None


def _earlier_handoffs(entries: Sequence[Entry]) -> tuple[tuple[Quote, ...], str]:
    """Items of earlier handoffs in a thread, folded into one list, and the first one's id."""
    folded: dict[str, Quote] = {}
    parent = ""
    for entry in entries:
        if entry.kind != "user" or entry.origin != "handoff":
            continue
        parent = parent or handoff_of(entry.text)
        for quote in _folded(entry):
            folded[quote.text] = quote
    return tuple(folded.values()), parent


def _folded(entry: Entry) -> Iterable[Quote]:
    section = ""
    past, _, goal = entry.text.rpartition(_GOAL_HEADING)
    goal = goal.partition("\n")[2]
    if goal.strip() and past:
        yield Quote(text=f"Goal then: {shorten(' '.join(goal.split()), 240)}", ref=entry.ref)
    for line in past.split("\n"):
        if line.startswith("## "):
            section = line[3:].strip().lower()
        elif line.startswith("- ") and section in _FOLDED_SECTIONS:
            text = re.sub(r"\s*\[#\d[^\]]*\]\s*$", "", line[2:])
            yield Quote(text=text.removeprefix("Goal then: Goal then: "), ref=entry.ref)
