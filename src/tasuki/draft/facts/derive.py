"""Facts: what can be derived from a thread without a model, in its own characters, with refs."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.facts import commands, statements
from tasuki.draft.facts.commands import CommandRun
from tasuki.draft.facts.files import build_file_facts
from tasuki.draft.facts.mentions import Mentions, add_mentions, list_mentions
from tasuki.draft.facts.statements import LeftOut, Statement
from tasuki.draft.repository.uncommitted import compare_commits, find_uncommitted, is_changed
from tasuki.draft.runs.command_kinds import strip_variables
from tasuki.draft.text import language_cues
from tasuki.draft.text.split import (
    extract_terms,
    find_identifiers,
    has_most_terms,
    shorten,
    split_sentences,
)
from tasuki.model import Entry, Facts, Lesson, Quote, Revision, Thread
from tasuki.paths import is_outside

T = TypeVar("T")

_MAX_LESSONS = 12
NEAR_FAILURE = 6
"""Entries after a failure in which a sentence may explain it without naming anything of it."""
MIN_WEIGHT_AT_ONCE = 0.4
MIN_WEIGHT_LATER = 0.7
"""Minimum weight of a sentence that explains a failure: one right after it, and a later one."""
_LESSON_RUNS = 800
"""The newest commands among which failures are looked for."""
_GREEN = ("test", "lint", "build")


class DerivedFacts(Struct, frozen=True):
    """Facts with the statements they were taken from, which the ranking weighs."""

    facts: Facts
    statements: tuple[Statement, ...]
    own_words: dict[int, str] = {}
    """What the user wrote in each message, without the middle of long pastes."""
    left_out: tuple[LeftOut, ...] = ()
    """What of these messages is not in the statements, and why."""
    runs: tuple[CommandRun, ...] = ()
    parent: str = ""
    """Id of the handoff that the thread began with, empty if it began with none."""
    mentions: Mentions = Mentions()
    memo: dict[str, Any] = {}
    """What the thread and these statements alone decide, by its name; it is kept with them."""

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """Return what has this name in the memo; it is made once."""
        if name not in self.memo:
            self.memo[name] = make()
        value: T = self.memo[name]
        return value


def derive_facts(
    thread: Thread,
    revision: Revision | None = None,
    goal: str = "",
    known: DerivedFacts | None = None,
) -> DerivedFacts:
    """Derive all facts of a thread. `revision` is git's current state, if it was read.

    The goal only widens what is read: old entries that name its identifiers. `known` is what
    `read_facts` returned for this thread.
    """
    known = known or read_facts(thread)
    names = dict.fromkeys(find_identifiers(goal[:20_000]))
    focus = [name for name in names if len(name) >= 5][:8]  # Long enough to mean something.
    if statements.is_named_early(thread.entries, focus):
        by_user = (one for one in known.statements if one.by_user)
        by_agent = statements.extract_assistant_statements(thread.entries, focus)
        known = replace(known, statements=(*by_user, *by_agent), memo={})
    files, spoken_of = add_mentions(known.facts.files, known.mentions, thread.cwd)
    facts = replace(known.facts, files=files, spoken_of=spoken_of)
    return replace(known, facts=_compare_with_git(thread, facts, revision or Revision()))


def _compare_with_git(thread: Thread, facts: Facts, revision: Revision) -> Facts:
    """Return the facts of a thread with what git knows now of its files and commits."""
    repository = facts.repository
    live = [c for c in repository.commits if not c.gone]
    commits = tuple(Quote(text=f"{c.hash} {c.subject}", ref=c.ref) for c in live if c.hash)
    if revision.repository:
        repository = compare_commits(repository, revision)
    edited = [f for f in facts.files if is_changed(f)]
    left, unclear = find_uncommitted(thread, edited, repository, revision)
    facts = replace(
        facts,
        uncommitted=left,
        maybe_committed=unclear,
        repository=repository,
        revision=replace(revision, branch=repository.branch, head=thread.git_head, commits=commits),
    )
    if facts.previous:
        from tasuki.draft.facts.earlier_handoffs import still_holds

        previous = tuple(q for q in facts.previous if still_holds(q.text, facts))
        facts = replace(facts, previous=previous)
    return facts


def read_facts(thread: Thread) -> DerivedFacts:
    """Derive what the thread alone decides; what earlier handoffs told is not compared with it yet."""
    # Facts that are known already need none of these.
    from tasuki.draft.facts.earlier_handoffs import fold_earlier_handoffs, is_open
    from tasuki.draft.facts.run_logs import join_looks
    from tasuki.draft.repository.reader import read_repository

    entries = thread.entries
    all_runs = commands.list_runs(entries, thread.cwd)
    join_looks(all_runs, thread)
    files = build_file_facts(thread, all_runs)
    own_words: dict[int, str] = {}
    left_out: list[LeftOut] = []
    stated = (
        *statements.extract_user_statements(entries, own_words, left_out),
        *statements.extract_assistant_statements(entries),
    )
    lists = (
        (e.tool.todos, e.ref)
        for e in reversed(entries)
        if e.tool and e.tool.todos is not None and e.tool.status != "error"
    )
    todos, todos_ref = next(lists, ((), 0))
    last_green = next((r.ref for r in reversed(all_runs) if r.check in _GREEN and r.ok), 0)
    subjects = commands.list_commit_subjects(all_runs)
    folded, parent = fold_earlier_handoffs(entries)
    pending = {  # A commit may speak of what an earlier brief calls open.
        q: set(extract_terms(q.text.partition(": ")[2])) for q in folded if is_open(q.text)
    }
    done = {q for q, about in pending.items() for s in subjects if has_most_terms(s.text, about)}
    edited = (f for f in files if is_changed(f))
    own = [f for f in edited if not (is_outside(f.path) or f.is_scrap)]
    facts = Facts(
        files=files,
        commands=commands.build_command_facts(all_runs, entries),
        last_check=commands.find_last_checks(all_runs, entries),
        unverified=tuple(f.path for f in own if f.edits[-1] > last_green),
        todos=todos,
        todos_ref=todos_ref,
        lessons=_find_lessons(entries, all_runs),
        running=tuple(b for b in thread.background if b.state == "running"),
        previous=tuple(q for q in folded if q not in done),
        subjects=subjects,
        repository=read_repository(entries, thread.git_branch, thread.cwd),
        skill=thread.last_skill,
    )
    return DerivedFacts(
        facts,
        stated,
        own_words,
        tuple(left_out),
        tuple(all_runs),
        parent,
        list_mentions(thread, files, all_runs),
    )


def _find_lessons(entries: Sequence[Entry], all_runs: Sequence[CommandRun]) -> tuple[Lesson, ...]:
    """Return commands that failed, and whether the same command passed later, newest first.

    A failed check counts as passed with the next one of its kind that may have looked at all that
    failed, and passed; a newer one without that takes its place. A failed merge or push counts as
    passed with the next commit. Other commands that failed once, long ago, were only attempts.
    """
    passed: dict[str, int | None] = {}
    lessons: dict[str, Lesson] = {}
    later: list[CommandRun] = []
    texts = [e for e in entries if e.kind == "assistant"]
    last = entries[-1].ref if entries else 0
    counts: Counter[str] = Counter()
    for run in all_runs[: -_LESSON_RUNS - 1 : -1]:
        if len(lessons) >= _MAX_LESSONS:
            break
        command = commands.LEADING_CD.sub("", run.command)
        key = strip_variables(commands.normalize_command(command))
        if run.was_blocked:
            continue
        if run.ok:
            passed[key] = run.ref
            if "commit" in commands.list_check_kinds(run.command):
                passed["commit"] = run.ref
        elif run.result == "not shown":
            passed.setdefault(key, None)  # It may have.
        elif not run.navigation and key not in lessons:
            counts[key] += 1
            after = _find_pass(run, later) if run.judged else passed.get(key, 0)
            if not after and key.startswith("git "):
                after = passed.get("commit", 0)
            is_kept = run.check or counts[key] > 1 or run.ref > last - max(20, last // 7)
            if after is not None and (after or is_kept):
                error = commands.find_error(run)
                failure = f"{run.command} {error}"
                words = _find_explanation(texts, run.ref, after or run.ref + 12, failure)
                lessons[key] = Lesson(
                    command=run.command,
                    error=error,
                    failed=run.ref,
                    folder=run.folder,
                    started=run.result == "failed",
                    passed=after,
                    words=words.text if words else "",
                    words_ref=words.ref if words else 0,
                )
        if not run.navigation:
            later.append(run)
    return tuple(lessons.values())


def _find_pass(run: CommandRun, later: Sequence[CommandRun]) -> int | None:
    """Return the run from which on all that went wrong in a check has passed, 0 where nothing looked at it again.

    None where it failed again or the result is not shown. `later`: the runs after it, the newest first.
    """
    passes: list[int | None] = []
    for kind, bad in run.judged.items():
        if bad.result not in ("failed", "did not run"):
            continue
        found: int | None = 0
        for one in reversed(later):
            if commands.makes_up_for(one, run, kind):
                found = one.ref if one.judged.get(kind, one.judgement).result == "passed" else None
                if found:
                    break
        passes.append(found)
    known = [ref for ref in passes if ref is not None]
    if len(known) < len(passes):
        return None
    return max(known) if known and all(known) else 0


def _find_explanation(
    texts: Sequence[Entry], after: int, before: int, failure: str
) -> Quote | None:
    """Return the sentence between two entries that best explains a failure. It is near the failure, or names it."""
    names = set(find_identifiers(failure))
    best: tuple[float, Quote] | None = None
    for entry in texts:
        if after < entry.ref <= min(before, after + 40):
            for sentence in split_sentences(entry.text[:20_000]):
                weight = language_cues.weigh_assistant_sentence(sentence)
                at_once = entry.ref - after <= 2
                if weight < (MIN_WEIGHT_AT_ONCE if at_once else MIN_WEIGHT_LATER):
                    continue
                shared = any(n in sentence for n in names)
                if not shared and entry.ref - after > NEAR_FAILURE:
                    continue
                weight += 0.8 * shared - 0.06 * (entry.ref - after)
                if best is None or weight > best[0]:
                    best = (weight, Quote(text=shorten(sentence), ref=entry.ref))
    return best[1] if best else None
