"""The state of the work: what is done, in progress, failing, cancelled.

It is derived mechanically. Each function yields lines ready for a draft. The words around
the thread's own characters are fixed; only rules judge.
"""

from collections.abc import Callable, Iterator

from tasuki.draft.facts.check_lines import find_whole_run, list_checks
from tasuki.draft.facts.commands import (
    LEADING_CD,
    find_check_kind,
    list_check_kinds,
    shorten_check,
    shorten_command,
)
from tasuki.draft.repository.lines import list_repository_items, name_paths, shorten_paths
from tasuki.draft.runs.command_kinds import drop_here_documents, is_navigation, list_simple_commands
from tasuki.draft.runs.runners import JUDGED
from tasuki.draft.text.split import extract_terms, fold_whitespace, has_most_terms, shorten
from tasuki.harness.tool_table.calls import SERVER
from tasuki.model import Facts, Item, Lesson, Thread, ToolCall
from tasuki.paths import make_relative
from tasuki.patterns import compile_pattern

_ERROR_IN_GOAL = compile_pattern(
    r"(?i)\b(?:error|exception|fail\w*|panic|fatal|denied|refused|not found|cannot|undefined)\b"
)


def list_state_items(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield state lines in the order of use. Each is proved by a program's output or an exit code."""
    if thread.aborted and thread.entries:
        told = (e for e in reversed(thread.entries) if e.origin != "harness")
        last = next(told, thread.entries[-1])
        command = last.tool.command if last.tool else ""
        doing = f" during `{shorten_command(command, 160)}`" if command else ""
        yield Item(text=f"The user interrupted the last turn{doing}", refs=(last.ref,))
    yield from _list_unanswered(thread)
    if thread.limit and thread.entries:  # What was asked last was not done.
        said = thread.limit.text.rstrip(".")
        text = f'The last turn stopped at a usage limit of {thread.harness}: "{said}"'
        yield Item(text=text, refs=(thread.entries[-1].ref,))
    yield from list_repository_items(thread, facts)
    yield from list_checks(thread, facts)
    yield from _list_plan(thread)
    yield from _list_todos(thread, facts)
    yield from _list_running(thread, facts)
    yield from _list_undone(facts)
    yield from _list_refused(thread)
    yield from _list_failing(thread, facts)


def _list_unanswered(thread: Thread) -> Iterator[Item]:
    """Yield the last commands and edits that have no result, and are not in the background."""
    calls: list[tuple[int, str]] = []
    for entry in reversed(thread.entries):
        call = entry.tool
        if call is None or call.status != "running" or call.background:
            break
        if call.changes:
            paths = [make_relative(change.path, thread.cwd) for change in call.changes]
            calls.insert(0, (entry.ref, f"an edit of {name_paths(paths, 2)}"))
        elif call.command and not is_navigation(call.command):  # It does more than look around.
            calls.insert(0, (entry.ref, f"`{_name_steps(call.command)}`"))
    if calls and not thread.aborted:
        more = f"{len(calls) - 2} more, " if len(calls) > 2 else ""
        told = more + " and ".join(name for _, name in calls[-2:])
        refs = tuple(ref for ref, _ in calls[-3:])
        yield Item(text=f"{told}; no result is recorded", refs=refs, label="Called last")


def _name_steps(command: str) -> str:
    """Return a short form of a command line: its git commands by their verbs, else its beginning."""
    steps = [part.text.split()[:2] for part in list_simple_commands(command)]
    if all(words[:1] == ["git"] for words in steps) and len(steps) > 1:
        return "git " + ", ".join(words[-1] for words in steps)
    line = " ".join(drop_here_documents(LEADING_CD.sub("", command)).split())
    return shorten(line.replace('"$(cat )"', "…"), 160)


# -- plans ----------------------------------------------------------------------------


def _list_todos(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield the todo list or plan as last written, unless the work went on without it for long.

    Of one before later messages of the user only what is open is shown, and what nobody spoke of since.
    """
    todos, ref = facts.todos, (facts.todos_ref,)
    if not todos or thread.entries[-1].ref - facts.todos_ref > _OLD_ENTRIES:
        return
    parts = (
        ("in progress", "in_progress", 300), ("open", "pending", 500),
        ("dropped", "dropped", 200), ("done", "done", 300),
    )  # fmt: skip
    age, shown = "", list(parts)
    if _is_old(thread, facts.todos_ref):
        later = [q.text for q in (*facts.revision.commits, *facts.subjects) if q.ref > ref[0]]
        later += [e.text for e in thread.entries if e.kind == "assistant" and e.ref > ref[0]]
        low = [text.lower() for text in later]

        def is_spoken_of(text: str) -> bool:
            """Return whether a later text holds half of the telling words, or there are too few to know."""
            terms = set(extract_terms(text))
            held = (sum(term in one for term in terms) for one in low)
            return len(terms) < 3 or any(2 * count >= len(terms) for count in held)

        todos = tuple(t for t in todos if not is_spoken_of(t.text))
        age = f" when last written, {thread.entries[-1].ref - facts.todos_ref} entries ago"
        shown = [parts[1]]
    elif thread.entries[-1].ref - facts.todos_ref > _FEW_ENTRIES:
        age = f" when last written, {thread.entries[-1].ref - facts.todos_ref} entries ago"
    elif any(e.is_prompt for e in thread.entries if e.ref > facts.todos_ref):
        shown[-1] = ("done before a later message of the user", "done", 300)
    for word, status, limit in shown:
        if texts := [fold_whitespace(t.text) for t in todos if t.status == status]:
            label = f"Todo list, {word}{age}"
            yield Item(text=shorten("; ".join(texts), limit), refs=ref, label=label)


MAX_PLAN = 500
_HEADING = compile_pattern(r"(?m)^#{1,3} +(.+)$")
_STEP = compile_pattern(
    r"(?m)^[ \t]{0,3}(?:\d{1,2}[.)] +|#{2,4} +(?=(?:(?:Step|Phase|Task|Part)\s+)?\d))(.+)$"
)


def _list_plan(thread: Thread) -> Iterator[Item]:
    """Yield heading and steps of the last plan of the agent, if the user approved it."""
    plans = [e for e in thread.entries if e.origin == "plan" or (e.tool and e.tool.kind == "plan")]
    for entry in plans[-1:] if plans and plans[-1].origin == "plan" else ():
        heading = _HEADING.search(entry.text)
        steps = [fold_whitespace(step) for step in _STEP.findall(entry.text)]
        title = heading[1] if heading else next(iter(entry.text.split("\n")), "")
        text = "; ".join((fold_whitespace(title).removeprefix("Plan: "), *steps))
        later = sum(e.is_prompt for e in thread.entries if e.ref > entry.ref)
        age = f", before {later} later {'message' if later == 1 else 'messages'} of the user"
        label = f"Approved plan{age if later else ''}"
        yield Item(text=shorten(text, MAX_PLAN), refs=(entry.ref,), label=label)


_FEW_ENTRIES = 10
"""Entries after which a todo list is told with its age."""
_OLD_ENTRIES, _OLD_MESSAGES, _SOME_ENTRIES = 60, 2, 20
"""Entries, or messages and some entries, after which a todo list or a started task belongs to the past."""


def _is_old(thread: Thread, ref: int) -> bool:
    """Return whether the work moved on to other things since an entry."""
    later = [e for e in thread.entries if e.ref > ref]
    messages = sum(e.is_prompt for e in later)
    return len(later) > _OLD_ENTRIES or (messages > _OLD_MESSAGES and len(later) > _SOME_ENTRIES)


def _list_running(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield what was started and is not known to have ended; what is old only if it is a server."""
    running = []
    for item in facts.running:
        kind = find_check_kind(item.label) if item.kind == "command" else ""
        shows_address = any("://" in place or "port" in place.lower() for place in item.places)
        is_server = shows_address or bool(SERVER.search(item.label))
        was_run_again = any(c.check == kind and c.refs[-1] > item.ref for c in facts.commands)
        is_past = _is_old(thread, item.ref) or (bool(kind) and was_run_again)
        # What `gh` watches is told as last seen.
        if not item.label.startswith("gh ") and (
            (item.kind == "command" and is_server) or not is_past
        ):
            running.append(item)
    for item in running[-4:]:
        label = shorten(fold_whitespace(item.label), 140)
        where = f" ({', '.join(item.places)})" if item.places else ""
        kind_name = "Sub-agent" if item.kind == "agent" else "Background command"
        text = f"{kind_name} `{label}` was started{where}; no end or report of it is recorded"
        yield Item(text=f"{text} since #{item.ref}", refs=(item.ref,))


def _list_undone(facts: Facts) -> Iterator[Item]:
    """Yield edits that were restored to git's version, and that no commit can hold."""
    settled = [ref for c in facts.repository.checkouts for ref, _ in c.settled]
    undone = [
        f
        for f in facts.files
        if f.edits and f.edits[-1] < f.undone
        if not any(f.edits[-1] < ref < f.undone for ref in settled)
    ]
    if undone:
        text = name_paths(shorten_paths(facts, [f.path for f in undone]))
        refs = tuple(sorted({f.undone for f in undone}))
        yield Item(text=text, refs=refs, label="Put back as git has it")


REFUSED_WITHIN = 40
"""Newest entries in which a refused call still shows what the user does not want."""


def _list_refused(thread: Thread) -> Iterator[Item]:
    """Yield tool calls that the user refused recently without a word, and that did not go through since.

    Those with words are quoted with them.
    """
    newest = thread.entries[-REFUSED_WITHIN:]
    refused = [
        e
        for e, after in zip(newest, [*newest[1:], None], strict=False)  # empty for no entries
        if e.tool and e.tool.status == "refused" and not (after and after.origin == "answer")
        and not any(x.tool and x.ref > e.ref and _went_through(e.tool, x.tool) for x in newest)
    ]  # fmt: skip
    for entry in refused[-2:]:
        call = entry.tool
        assert call is not None
        paths = " ".join(make_relative(p, thread.cwd) for p in call.paths)
        target = shorten_command(call.command, 140) if call.command else paths
        text = f"{call.name} `{target}`" if target else ""
        if call.kind == "plan" and (heading := _HEADING.search(call.detail)):
            text = f"the plan “{shorten(heading[1], 140)}”"
        if text:
            yield Item(text=text, refs=(entry.ref,), label="Refused by the user")


def _went_through(refused: ToolCall, later: ToolCall) -> bool:
    """Return whether a later call did what a refused one would have done, or a part of it."""
    if later.status != "ok":
        return False
    if refused.kind != "shell":
        same = bool({*refused.paths} & {*later.paths}) if refused.paths else refused.kind == "plan"
        return same and bool(later.changes or refused.kind == later.kind)
    wanted, done = (
        [part.text.split() for part in list_simple_commands(call.command)]
        for call in (refused, later)
    )
    return any(
        a[:2] == b[:2] and ({*a[2:]} & {*b[2:]} or a[2:] == b[2:] or "." in b[2:])
        for a in wanted[:1]
        for b in done
    )


FAILING_WITHIN = 60
_IN_SCRATCH = compile_pattern(r"cd (?:/private)?/tmp\b|cd \$\(mktemp")
_IS_TASK = compile_pattern(
    r"(?:(?:npm|pnpm|yarn|bun) run|make|just|task|mise run|rake|(?:bundle exec |bin/)?rails|docker (?:compose )?(?:build|up)"
    r"|terraform (?:apply|plan)|alembic|(?:npm|cargo|poetry|uv) publish|twine upload|vercel|fly deploy|helm (?:install|upgrade)) ?(?!.*(?:--version|--help))"
)
"""Commands, beside checks, that a project needs to pass: its tasks, builds, migrations, releases."""


def _list_failing(thread: Thread, facts: Facts) -> Iterator[Item]:
    """Yield commands that failed recently and did not pass since, other than the last checks."""
    check_refs = {check.refs[-1] for check in facts.last_check if not check.ok}
    if whole := find_whole_run(facts):
        check_refs.add(whole.refs[-1])
    last = thread.entries[-1].ref if thread.entries else 0
    still = [
        x
        for x in facts.lessons
        if not x.passed
        and x.error
        and x.failed not in check_refs
        and x.failed > last - FAILING_WITHIN
        and (find_check_kind(x.command) in JUDGED or _IS_TASK.match(x.command))
        and not _IN_SCRATCH.match(x.command)
    ]
    for lesson in still[:2]:
        where = f" (in {lesson.folder})" if lesson.folder else ""
        command = shorten_check(lesson.command, list_check_kinds(lesson.command), 120)
        text = f"`{command}`{where}: `{shorten(lesson.error, 160)}`"
        label = "Failed, and did not pass since" if lesson.started else "Did not run"
        yield Item(text=text, refs=(lesson.failed,), label=label)


def list_lessons(facts: Facts, worth: Callable[[Lesson], float]) -> Iterator[Item]:
    """Yield failures that were fixed, with the sentence that explains them."""
    for lesson in sorted(facts.lessons, key=worth, reverse=True)[:6]:
        if not (lesson.error and lesson.passed and lesson.words):
            continue
        refs = tuple(r for r in (lesson.failed, lesson.words_ref, lesson.passed) if r)
        command = f"`{shorten_command(lesson.command, 120)}`: `{shorten(lesson.error, 200)}`"
        yield Item(text=f'{command} — "{lesson.words}"', refs=refs, label="Failed, then passed")


def is_done_since(text: str, ref: int, facts: Facts) -> bool:
    """Return whether a later commit or finished todo speaks of what a sentence calls pending."""
    weights = extract_terms(text)
    about = {t for t, w in weights.items() if w > 1} or set(weights)
    later = [q.text for q in (*facts.revision.commits, *facts.subjects) if q.ref > ref]
    later += [t.text for t in facts.todos if t.status == "done" and facts.todos_ref > ref]
    return any(has_most_terms(text, about) for text in later)


def find_goal_errors(thread: Thread, facts: Facts, goal: str) -> Iterator[Item]:
    """Yield error lines of the goal that the thread has seen before. What was tried since did not help."""
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
        tried = f"; edited since it was first seen: {name_paths(edited)}" if edited else ""
        text = f"`{shorten(fold_whitespace(line), 220)}` was seen before, word for word{tried}"
        yield Item(text=text, refs=tuple(refs[:1] + refs[-3:]), label="The error in the goal")
        return


_QUOTED_SPAN = compile_pattern(r"[\"“`]([^\"“”`\n]{25,400})[\"”`]")
_QUOTES_LOOKED_FOR = 3


def find_goal_quotes(thread: Thread, goal: str) -> Iterator[Item]:
    """Yield where a text that the goal quotes was written or read last."""
    spans = [m[1].strip() for m in _QUOTED_SPAN.finditer(goal[:20_000])][:_QUOTES_LOOKED_FOR]
    for span in spans:
        for entry in reversed(thread.entries):
            call = entry.tool
            if call is None or not call.paths or call.status in ("error", "refused"):
                continue
            shows = call.kind == "read" or (call.kind == "shell" and _SHOWS.match(call.command))
            code = call.output if shows and not call.changes else ""
            if span not in code and not any(span in change.new for change in call.changes):
                continue
            path = next((c.path for c in call.changes if span in c.new), call.paths[0])
            text = f"`{shorten(span, 120)}` is in `{make_relative(path, thread.cwd)}`"
            yield Item(text=text, refs=(entry.ref,), label="Quoted in the goal")
            break


_SHOWS = compile_pattern(r"^\s*(?:cd \S+ && )?(?:sed -n|cat |nl |head |tail -n)")
