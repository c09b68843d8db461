"""The state of the work, which is mechanical: what is done, under way, failing, called off.

Each function yields lines ready for a draft. The words around the thread's own characters are
fixed; nothing is judged that a rule could not check.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from tasuki.draft.commands import is_selection, short_command
from tasuki.draft.mentions import relative
from tasuki.draft.text import one_line, shorten, speaks_of, terms
from tasuki.model import CommandFact, Entry, Facts, Item, Lesson, Thread

_MAX_NAMED = 6
_ERROR_IN_GOAL = re.compile(
    r"(?i)\b(?:error|exception|fail\w*|panic|fatal|denied|refused|not found|cannot|undefined)\b"
)


def items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """State lines in the order of use."""
    yield from _in_progress(thread, facts)
    yield from _checks(facts)
    yield from _todos(thread, facts)
    yield from _done(facts)
    yield from _running(thread, facts)
    yield from _undone(facts)
    yield from _refused(thread)


def _names(paths: Sequence[str], limit: int = _MAX_NAMED) -> str:
    named = ", ".join(f"`{p}`" for p in paths[:limit])
    more = len(paths) - limit
    return f"{named} and {more} more" if more > 0 else named


def _in_progress(thread: Thread, facts: Facts) -> Iterator[Item]:
    if thread.aborted and thread.entries:
        yield Item(
            text="the user interrupted the last turn",
            refs=(thread.entries[-1].ref,),
            label="In progress",
        )
    if not facts.uncommitted:
        return
    refs = tuple(sorted(f.edits[-1] for f in facts.files if f.path in facts.uncommitted)[-4:])
    commits = facts.revision.commits
    since = (
        f"since the thread's last commit (`{commits[-1].text.split()[0]}`)"
        if commits
        else "and not committed by the agent"
    )
    yield Item(text=f"edited {since}: {_names(facts.uncommitted)}", refs=refs, label="In progress")


_WHAT = {"test": "Tests", "lint": "Lint or type check", "build": "Build"}


def _checks(facts: Facts) -> Iterator[Item]:
    for check in facts.last_check:
        result = _result(check)
        edited = [f.path for f in facts.files if f.edits and f.edits[-1] > check.refs[-1]]
        after = f"; edited since: {_names(edited, 4)}" if edited else "; nothing edited since"
        label = f"{_WHAT[check.check]} as last seen"
        text = f"`{short_command(check.command, 160)}` — {result}{after}"
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
            text="only selected tests were run; the whole suite never in this thread",
            refs=tests[0].refs[-1:],
            label="Not verified",
        )


def _todos(thread: Thread, facts: Facts) -> Iterator[Item]:
    todos, ref = facts.todos, (facts.todos_ref,)
    old = _is_old(thread, facts.todos_ref)
    age = f", {thread.entries[-1].ref - facts.todos_ref} entries ago" if old else ""
    for todo in todos:
        if todo.status == "in_progress" and not old:
            yield Item(text=shorten(one_line(todo.text)), refs=ref, label="In progress")
    pending = [one_line(t.text) for t in todos if t.status == "pending"]
    if pending:
        yield Item(
            text=shorten("; ".join(pending), 600), refs=ref, label=f"Pending in its todo list{age}"
        )
    dropped = [one_line(t.text) for t in todos if t.status == "dropped"]
    if dropped:
        yield Item(text=shorten("; ".join(dropped), 300), refs=ref, label="Not wanted any more")
    done = [one_line(t.text) for t in todos if t.status == "done"]
    if done:
        yield Item(text=shorten("; ".join(done), 400), refs=ref, label="Done, keep")


def _done(facts: Facts) -> Iterator[Item]:
    commits = facts.revision.commits
    if not commits:
        return
    newest = [f"`{c.text.split()[0]}` {c.text.partition(' ')[2]}" for c in reversed(commits[-4:])]
    earlier = f"; {len(commits) - 4} earlier" if len(commits) > 4 else ""
    branch = f" on `{facts.revision.branch}`" if facts.revision.branch else ""
    yield Item(
        text=f"committed{branch}: {'; '.join(newest)}{earlier}",
        refs=tuple(c.ref for c in commits[-4:]),
        label="Done, keep",
    )


_OLD_ENTRIES, _OLD_MESSAGES = 60, 2
"""Entries and messages of the user after which a todo list or a sub-agent is of the past."""


def _is_old(thread: Thread, ref: int) -> bool:
    """Whether the work went on to other things since an entry."""
    later = [e for e in thread.entries if e.ref > ref]
    messages = sum(e.kind == "user" and e.origin in ("typed", "queued") for e in later)
    return len(later) > _OLD_ENTRIES and messages > _OLD_MESSAGES


def _running(thread: Thread, facts: Facts) -> Iterator[Item]:
    for item in facts.running[-4:]:
        if item.kind == "agent" and _is_old(thread, item.ref):
            continue
        what = "sub-agent" if item.kind == "agent" else "background command"
        yield Item(
            text=f"{what} `{shorten(item.label, 160)}` was not seen to end",
            refs=(item.ref,),
            label="Running",
        )


def _undone(facts: Facts) -> Iterator[Item]:
    """Edits that were put back as git has them."""
    undone = [f for f in facts.files if f.undone and f.edits and f.edits[-1] < f.undone]
    if undone:
        yield Item(
            text=f"put back as git has it: {_names([f.path for f in undone])}",
            refs=tuple(sorted({f.undone for f in undone})),
            label="Undone",
        )


def _refused(thread: Thread) -> Iterator[Item]:
    """Tool calls that the user refused, the newest ones."""
    refused = [e for e in thread.entries if e.tool and e.tool.status == "refused"]
    for entry in refused[-2:]:
        call = entry.tool
        assert call is not None
        what = short_command(call.command, 160) if call.command else " ".join(call.paths)
        if what:
            yield Item(text=f"{call.name} `{what}`", refs=(entry.ref,), label="Refused by the user")


def lessons(facts: Facts, worth: Callable[[Lesson], float]) -> Iterator[Item]:
    """Failures: open ones as such, mended ones with the sentence that explains them."""
    told = {check.refs[-1] for check in facts.last_check}
    for lesson in sorted(facts.lessons, key=worth, reverse=True)[:6]:
        if not lesson.error or lesson.failed in told:
            continue
        refs = tuple(r for r in (lesson.failed, lesson.words_ref, lesson.passed) if r)
        words = f' — "{lesson.words}"' if lesson.words else ""
        command = f"`{short_command(lesson.command, 120)}`: `{shorten(lesson.error, 200)}`"
        if lesson.passed:
            if lesson.words:
                yield Item(text=f"{command}{words}", refs=refs, label="Failed, then passed")
        else:
            yield Item(text=f"{command}{words}", refs=refs, label="Failed, not passed since")


def done_since(text: str, ref: int, facts: Facts) -> bool:
    """Whether a later commit or finished todo speaks of what a sentence calls pending."""
    weights = terms(text)
    about = {t for t, w in weights.items() if w > 1} or set(weights)
    later = [q.text for q in (*facts.revision.commits, *facts.subjects) if q.ref > ref]
    later += [t.text for t in facts.todos if t.status == "done" and facts.todos_ref > ref]
    return any(speaks_of(text, about) for text in later)


_ANSWERS = re.compile(
    r"^\s*\W*(?:\d+\s*[.):]|(?:let'?s )?(?:do|go with|take|option|yes|no|ok|yup|yeah|both|all|the (?:first|second|third|last))\b)"
    r"|\b(?:option|item|point|number) ?\d\b|\b(?:these|those|them|all of (?:them|these)|this again)\b",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"^\s*(?:[-*]\s+)?(?:\*\*)?((?:Option |Item )?(?:\d{1,2}|[A-D])\b[.):]\S?.*|\*\*.+)$"
)
_MOST_LISTED, _LISTED_CHARACTERS, _SHORT_GOAL = 12, 110, 200


def last_message(thread: Thread, goal: str) -> Iterator[Item]:
    """The list in the agent's last message, where the goal answers it: `1. yup  2. the second way`."""
    last = next((e for e in reversed(thread.entries) if e.kind == "assistant"), None)
    if last is None or not (len(goal) < _SHORT_GOAL or _ANSWERS.search(goal[:400])):
        return
    if not (_ANSWERS.search(goal[:400]) or last.text.rstrip().endswith(("?", "？"))):
        return
    listed = [m[1] for line in last.text.split("\n") if (m := _LISTED.match(line))]
    if len(listed) < 2:
        return
    short = [shorten(one_line(line.replace("**", "")), _LISTED_CHARACTERS) for line in listed]
    yield Item(
        text=" · ".join(short[:_MOST_LISTED]),
        refs=(last.ref,),
        label="The last message, which the goal answers",
    )


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
            f"; edited since it was first seen, without curing it: {_names(edited)}"
            if edited
            else ""
        )
        yield Item(
            text=f"the goal's `{shorten(one_line(line), 220)}` was seen before, to the letter{tried}",
            refs=tuple(refs[:1] + refs[-3:]),
            label="Same error",
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
                text=f"`{shorten(span, 120)}` stands in `{relative(path, thread.cwd)}`",
                refs=(entry.ref,),
                label="What the goal quotes",
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
