"""The state of the work, which is mechanical: what is done, under way, failing, called off.

Each function yields lines ready for a draft. The words around the thread's own characters are
fixed; nothing is judged that a rule could not check.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tasuki.draft.commands import base_command, is_bookkeeping, is_selection, short_command, steps
from tasuki.draft.files import is_noise, is_outside, short_names
from tasuki.draft.mentions import relative
from tasuki.draft.text import one_line, shorten, speaks_of, terms
from tasuki.model import CommandFact, Commit, Entry, Facts, Item, Lesson, RepositoryState, Thread

MOST_NAMED = 6
MOST_COMMITS, MOST_PULLS = 5, 4
"""Commits named of the branch in use, and pull requests."""
_ERROR_IN_GOAL = re.compile(
    r"(?i)\b(?:error|exception|fail\w*|panic|fatal|denied|refused|not found|cannot|undefined)\b"
)


def items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """State lines in the order of use. Each is proved by a program's output or an exit code."""
    yield from _interrupted(thread)
    yield from _commits(facts)
    yield from _uncommitted(facts)
    yield from _pull_requests(facts.repository)
    yield from _checks(facts)
    yield from _todos(thread, facts)
    yield from _running(thread, facts)
    yield from _undone(facts)
    yield from _refused(thread)
    yield from _failing(thread, facts)


def _names(paths: Sequence[str], limit: int = MOST_NAMED) -> str:
    named = ", ".join(f"`{p}`" for p in paths[:limit])
    more = len(paths) - limit
    return f"{named} and {more} more" if more > 0 else named


def _short(facts: Facts, paths: Sequence[str]) -> list[str]:
    """Paths by their shortest ends that tell them from all others; the files have them whole."""
    names = short_names(f.path for f in facts.files)
    return [names.get(path, path) for path in paths]


def _interrupted(thread: Thread) -> Iterator[Item]:
    if not (thread.aborted and thread.entries):
        return
    last = thread.entries[-1]
    call = last.tool
    doing = f" during `{short_command(call.command, 160)}`" if call and call.command else ""
    yield Item(text=f"The user interrupted the last turn{doing}", refs=(last.ref,))


# -- the repository --------------------------------------------------------------------


def _commits(facts: Facts) -> Iterator[Item]:
    """The branch in use and what was committed on it, then what was committed elsewhere."""
    repository = facts.repository
    branch = repository.branch
    live = [c for c in repository.commits if not c.gone]
    here = [c for c in live if c.branch == branch]
    clean = repository.clean_ref
    changed = [f.edits[-1] for f in facts.files if f.edits and not is_outside(f.path)]
    is_clean = clean and clean >= max((*(c.ref for c in live), *changed), default=0)
    tree = "; git called the tree clean" if is_clean else ""
    cited = (clean,) if tree else ()
    if here:
        refs = (*(c.ref for c in here[-3:]), *cited)
        yield Item(text=f"{_told_commits(here)}{tree}", refs=refs, label=f"Committed on `{branch}`")
    elif branch:
        ref = (repository.branch_ref,) if repository.branch_ref else ()
        yield Item(text=f"`{branch}`{tree}; nothing was committed in this thread", refs=(*ref, *cited), label="Branch")
    for other in dict.fromkeys(c.branch for c in reversed(live) if c.branch != branch):
        there = [c for c in live if c.branch == other]
        name = f"`{other}`" if other else "a detached HEAD"
        yield Item(text=_told_commits(there, 2), refs=tuple(c.ref for c in there[-2:]), label=f"Committed on {name}, earlier")


def _told_commits(commits: Sequence[Commit], most: int = MOST_COMMITS) -> str:
    """Commits of one branch, the newest first, and whether they were pushed."""
    newest = list(reversed(commits))
    mixed = len({c.pushed for c in newest[:most]}) > 1
    told = []
    for commit in newest[:most]:
        hash = f"`{commit.hash}` " if commit.hash else ""
        told.append(f"{hash}{shorten(commit.subject, 90)}{_pushed(commit) if mixed else ''}")
    more = f"; {len(newest) - most} earlier" if len(newest) > most else ""
    return "; ".join(told) + more + ("" if mixed else _pushed(newest[0]).replace(" (", " — ").rstrip(")"))


def _pushed(commit: Commit) -> str:
    return {True: " (pushed)", False: " (no push seen)", None: ""}[commit.pushed]


def _uncommitted(facts: Facts) -> Iterator[Item]:
    if not facts.uncommitted:
        return
    edits = {f.path: f.edits[-1] for f in facts.files if f.path in facts.uncommitted}
    newest = sorted(edits, key=lambda path: -edits[path])
    refs = tuple(sorted(edits.values())[-4:])
    yield Item(text=_names(_short(facts, newest)), refs=refs, label="Not committed yet")


def _pull_requests(repository: RepositoryState) -> Iterator[Item]:
    """Pull requests that were made here, looked at one by one, or belong to the branch in use."""
    newest = sorted(repository.pull_requests, key=lambda p: (not p.created, -p.ref))
    by_ref = Counter(p.ref for p in newest)
    near = [p for p in newest if p.state and (p.created or by_ref[p.ref] <= MOST_PULLS or p.branch == repository.branch)]
    near = near[:MOST_PULLS]
    if near:
        told = ", ".join(f"#{p.number} {p.state}{', made in this thread' if p.created else ''}" for p in near)
        yield Item(text=told, refs=tuple(sorted({p.ref for p in near})), label="Pull requests, as last seen")


# -- checks and plans ------------------------------------------------------------------

_WHAT = {"test": "Tests", "lint": "Lint or type check", "build": "Build"}


def _checks(facts: Facts) -> Iterator[Item]:
    by_command: dict[str, list[CommandFact]] = {}
    tested = max((c.refs[-1] for c in facts.last_check if c.check == "test" and c.ok), default=0)
    for check in facts.last_check:
        if check.check == "build" and check.ok and check.refs[-1] < tested:
            continue  # What was tested later was built.
        by_command.setdefault(f"{check.refs[-1]} {check.command}", []).append(check)
    for checks in by_command.values():
        check = checks[0]
        kept = [f for f in facts.files if f.edits and not is_outside(f.path) and not is_noise(f.path)]
        edited = [f.path for f in kept if f.edits[-1] > check.refs[-1]]
        after = f"; edited since: {_names(_short(facts, edited), 4)}" if edited else "; nothing edited since"
        label = " and ".join(_WHAT[c.check] for c in checks)
        text = f"`{short_command(base_command(check.command), 140)}` {_result(check)}{after}"
        yield Item(text=text, refs=check.refs[-1:], label=label)
    yield from _selection_only(facts)


def _result(check: CommandFact) -> str:
    if check.ok:
        return f"passed: `{check.outcome}`" if check.outcome else "passed"
    return f"FAILED: `{check.error}`" if check.error else "FAILED"


def _selection_only(facts: Facts) -> Iterator[Item]:
    tests = [c for c in facts.commands if c.check == "test"]
    if tests and all(is_selection(c.command) for c in tests):
        yield Item(
            text="only selected tests were run in this thread, never the whole suite",
            refs=tests[0].refs[-1:],
            label="Not verified",
        )


def _todos(thread: Thread, facts: Facts) -> Iterator[Item]:
    """The todo list or plan as it was last written, unless the work went on to other things."""
    todos, ref = facts.todos, (facts.todos_ref,)
    if not todos or _is_old(thread, facts.todos_ref):
        return
    parts = (
        ("in progress", "in_progress", 300), ("open", "pending", 500),
        ("dropped", "dropped", 200), ("done", "done", 300),
    )  # fmt: skip
    for word, status, most in parts:
        if texts := [one_line(t.text) for t in todos if t.status == status]:
            yield Item(text=shorten("; ".join(texts), most), refs=ref, label=f"Todo list, {word}")


_OLD_ENTRIES, _OLD_MESSAGES = 60, 2
"""Entries and messages of the user after which a todo list or what was started is of the past."""


def _is_old(thread: Thread, ref: int) -> bool:
    """Whether the work went on to other things since an entry."""
    later = [e for e in thread.entries if e.ref > ref]
    messages = sum(e.kind == "user" and e.origin in ("typed", "queued") for e in later)
    return len(later) > _OLD_ENTRIES and messages > _OLD_MESSAGES


def _running(thread: Thread, facts: Facts) -> Iterator[Item]:
    for item in facts.running[-4:]:
        if _is_old(thread, item.ref):
            continue
        what = "Sub-agent" if item.kind == "agent" else "Background command"
        yield Item(
            text=f"{what} `{shorten(one_line(item.label), 140)}` was started; no end or report of it is recorded",
            refs=(item.ref,),
        )


def _undone(facts: Facts) -> Iterator[Item]:
    """Edits that were put back as git has them."""
    undone = [f for f in facts.files if f.undone and f.edits and f.edits[-1] < f.undone]
    if undone:
        yield Item(
            text=_names(_short(facts, [f.path for f in undone])),
            refs=tuple(sorted({f.undone for f in undone})),
            label="Put back as git has it",
        )


REFUSED_WITHIN = 40
"""Newest entries in which a refused call still tells what the user does not want."""


def _refused(thread: Thread) -> Iterator[Item]:
    """Tool calls that the user refused lately without a word; those with words are quoted with them."""
    newest = thread.entries[-REFUSED_WITHIN:]
    refused = [
        e
        for e, after in zip(newest, [*newest[1:], None], strict=True)
        if e.tool and e.tool.status == "refused" and not (after and after.origin == "answer")
    ]
    for entry in refused[-2:]:
        call = entry.tool
        assert call is not None
        what = short_command(call.command, 140) if call.command else " ".join(relative(p, thread.cwd) for p in call.paths)
        if what:
            yield Item(text=f"{call.name} `{what}`", refs=(entry.ref,), label="Refused by the user")


FAILING_WITHIN = 60


def _failing(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Commands that failed lately and did not pass since, other than the last checks."""
    told = {check.refs[-1] for check in facts.last_check}
    last = thread.entries[-1].ref if thread.entries else 0
    still = [
        x
        for x in facts.lessons
        if not x.passed and x.error and x.failed not in told and x.failed > last - FAILING_WITHIN
        and not any(is_bookkeeping(step) for step in steps(x.command))
    ]
    for lesson in still[:2]:
        text = f"`{short_command(base_command(lesson.command), 120)}`: `{shorten(lesson.error, 160)}`"
        yield Item(text=text, refs=(lesson.failed,), label="Failed, and did not pass since")


def lessons(facts: Facts, worth: Callable[[Lesson], float]) -> Iterator[Item]:
    """Failures that were mended, with the sentence that explains them."""
    for lesson in sorted(facts.lessons, key=worth, reverse=True)[:6]:
        if not (lesson.error and lesson.passed and lesson.words):
            continue
        refs = tuple(r for r in (lesson.failed, lesson.words_ref, lesson.passed) if r)
        command = f"`{short_command(lesson.command, 120)}`: `{shorten(lesson.error, 200)}`"
        yield Item(text=f'{command} — "{lesson.words}"', refs=refs, label="Failed, then passed")


def done_since(text: str, ref: int, facts: Facts) -> bool:
    """Whether a later commit or finished todo speaks of what a sentence calls pending."""
    weights = terms(text)
    about = {t for t, w in weights.items() if w > 1} or set(weights)
    later = [q.text for q in (*facts.revision.commits, *facts.subjects) if q.ref > ref]
    later += [t.text for t in facts.todos if t.status == "done" and facts.todos_ref > ref]
    return any(speaks_of(text, about) for text in later)


def goal_errors(thread: Thread, facts: Facts, goal: str) -> Iterator[Item]:
    """Error lines of the goal that the thread has seen before: what was tried since did not help."""
    for line in goal.split("\n")[:60]:
        line = line.strip()[:600]
        if len(line) < 20 or not _ERROR_IN_GOAL.search(line):
            continue
        refs = [
            e.ref for e in thread.entries if line in e.text or (e.tool and line in e.tool.output)
        ]
        if not refs:
            continue
        edited = [f.path for f in facts.files if f.edits and f.edits[-1] > refs[0]]
        tried = (
            f"; edited since it was first seen: {_names(edited)}"
            if edited
            else ""
        )
        yield Item(
            text=f"`{shorten(one_line(line), 220)}` was seen before, word for word{tried}",
            refs=tuple(refs[:1] + refs[-3:]),
            label="The error in the goal",
        )
        return


_SAYS_NOTHING = re.compile(r"(?:import|package|from|use|#include)\b|\)|[\w\"-]+:\s*$|\S+\s*[{(]?$")
"""A line of code that only brings in, closes or names something."""
_QUOTED_SPAN = re.compile(r"[\"“`]([^\"“”`\n]{25,400})[\"”`]")
_QUOTES_LOOKED_FOR = 3


def goal_quotes(thread: Thread, goal: str) -> Iterator[Item]:
    """Where a text that the goal quotes was written or read last."""
    spans = [m[1].strip() for m in _QUOTED_SPAN.finditer(goal[:20_000])][:_QUOTES_LOOKED_FOR]
    for span in spans:
        for entry in reversed(thread.entries):
            call = entry.tool
            if call is None or not call.paths or span not in _code_of(entry):
                continue
            path = next((c.path for c in call.changes if span in c.new), call.paths[0])
            yield Item(
                text=f"`{shorten(span, 120)}` is in `{relative(path, thread.cwd)}`",
                refs=(entry.ref,),
                label="Quoted in the goal",
            )
            break


_CODE_LINE = re.compile(r"^\s*(?:\d+[\t│|:→-]\s*|[\w./-]+:\d+:\s*)?(.*\S)\s*$")
_DEFINES = re.compile(
    r"\b(?:func|def|class|type|struct|interface|const|var|let|function|fn|enum|trait|export|private|public)\b"
)
_NAME = re.compile(r"[A-Za-z_$][\w$]{4,}")
_NAMELIKE = re.compile(r"[a-z][A-Z]|\w_\w|^_|\w\d")
_LOOKED_AT = 60
"""Newest reads and edits in which the goal's names are looked for."""


def goal_lines(thread: Thread, goal: str, limit: int = 6) -> Iterator[Item]:
    """Lines of code that the goal is about, from the newest reads and edits.

    A name of the code counts when it stands in the goal, or when it is made of the goal's words
    (`_eventListeners` for "event listeners").
    """
    looked = [(e, t) for e in reversed(thread.entries) if (t := _code_of(e))][:_LOOKED_AT]
    shown: set[str] = set()
    for name in _names_of_goal(goal, [t for _, t in looked])[:limit]:
        for entry, text in looked:
            if name in text and (line := _best_line(text, name)) and line not in shown:
                shown.add(line)
                call = entry.tool
                where = f" in `{call.paths[0].rsplit('/', 1)[-1]}`" if call and call.paths else ""
                yield Item(text=f"`{name}`{where}: `{line}`", refs=(entry.ref,))
                break


def _code_of(entry: Entry) -> str:
    """Code that an entry shows or writes; empty for anything else."""
    call = entry.tool
    if call is None or call.status in ("error", "refused"):
        return ""
    if call.changes:
        return "\n".join(c.new for c in call.changes)
    if call.kind == "read" or (call.kind == "shell" and _SHOWS.match(call.command)):
        return call.output
    return ""


_SHOWS = re.compile(r"^\s*(?:cd \S+ && )?(?:sed -n|cat |nl |head |tail -n)")


def _names_of_goal(goal: str, texts: Sequence[str]) -> list[str]:
    """Names in some code that a goal speaks of, the most telling first."""
    low = goal[:20_000].lower()
    squeezed = re.sub(r"[^a-z0-9]", "", low)
    wanted = {t for t in terms(goal) if len(t) >= 6}
    found: dict[str, float] = {}
    for text in texts:
        for name in dict.fromkeys(_NAME.findall(text)):
            bare = name.strip("_$").lower()
            if len(bare) < 5 or name in found:
                continue
            if not _NAMELIKE.search(name):
                continue  # A plain word of a comment or a heading.
            if name in goal:
                found[name] = 3.0
            elif len(bare) >= 8 and bare in squeezed:
                found[name] = 2.5
            elif any(w in bare and len(w) * 2 > len(bare) for w in wanted):
                found[name] = 1.0
    return [n for n, v in sorted(found.items(), key=lambda kv: (-kv[1], -len(kv[0]))) if v > 0]


def _best_line(text: str, name: str) -> str:
    """The line that defines or uses a name most plainly."""
    candidates = []
    pattern = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    for line in text.split("\n"):
        if name not in line or len(line) >= 300 or "`" in line or not pattern.search(line):
            continue
        if (match := _CODE_LINE.match(line)) and not _SAYS_NOTHING.match(match[1]):
            bare = one_line(match[1])
            comment = bare.startswith(("//", "#", "*", "/*"))
            candidates.append((not comment, bool(_DEFINES.search(bare)), -len(bare), bare))
    return shorten(max(candidates)[3], 200) if candidates else ""
