"""The author that is nobody: facts and ranked quotes, no model, no key, no invented word.

Every line is the thread's own characters behind a short label. Lines are offered in order of
worth, section by section, and taken until the budget is full.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tasuki.draft import state
from tasuki.draft.authors.task import Task
from tasuki.draft.brief import command_line, file_line, item_line, render_context, trimmed
from tasuki.draft.commands import base_command, is_selection, runnable, short_command
from tasuki.draft.files import is_noise
from tasuki.draft.rank import Relevance, best, order_files
from tasuki.draft.statements import Statement, Talk, unanswered
from tasuki.model import (
    CommandFact,
    CommandItem,
    Draft,
    Facts,
    FileFact,
    FileItem,
    Goal,
    Item,
    Thread,
)

ASKED = 20
PREVIOUS = 12
FILES_WANTED = 9
VALUES = 6
REJECTED_FLOOR = 0.9
NEXT_FLOOR = 0.9
DECISION_FLOOR = 0.6
QUESTION_FLOOR = 0.6
"""Scores under which a sentence is not worth a line; seen on real threads."""

# What is taken first: (section, how many of it in this round). Later rounds fill what is left.
ROUNDS: tuple[tuple[str, int], ...] = (
    ("state", 6), ("asked", 5), ("context", 3), ("files", 4), ("commands", 2), ("decisions", 2), ("questions", 2),
    ("previous", 3), ("asked", 4), ("context", 3), ("state", 4), ("decisions", 3), ("files", 2), ("commands", 2),
    ("questions", 2), ("asked", 4), ("context", 3), ("state", 4), ("previous", 3), ("decisions", 3), ("files", 3),
    ("asked", 4), ("state", 8), ("context", 3), ("questions", 2), ("commands", 6), ("files", 11), ("asked", 3),
)  # fmt: skip

_LINE: dict[str, Callable[[Any], str]] = {"files": file_line, "commands": command_line}


def write(
    task: Task, draft: Draft, *, budget: int, handoff_id: str, reasons: bool, preamble: bool
) -> Draft:
    """A draft that fits `budget` tokens without the goal, what did not fit in `left_out`.

    `draft` holds what is known beside the thread: metadata, drift, the skill.
    """
    offered = offer(task, reasons)
    return pack(draft, offered, budget, handoff_id, preamble)


def offer(task: Task, reasons: bool) -> dict[str, list[Any]]:
    """Everything worth a line, by section, best first, within the caps."""
    thread, facts, goal, relevance = task.thread, task.derived.facts, task.goal, task.relevance
    limits = task.limits
    stated = task.stated
    seen_before = list(state.goal_errors(thread, facts, goal.text))
    taken: set[str] = set()
    asked = list(_asked(stated, relevance, taken))
    decisions = list(_decisions(stated, relevance, limits["decisions"], taken))
    rejected = list(_rejected(stated, relevance, taken))
    next_steps = list(_next_steps(stated, facts, relevance, taken))
    questions = list(_questions(thread, stated, relevance, limits["questions"], taken))
    context = [
        *seen_before,
        *_values(facts, relevance),
        *_context(thread, stated, goal, relevance, limits["context"], taken),
    ]
    return {
        "previous": [Item(text=q.text, refs=(q.ref,)) for q in facts.previous][:PREVIOUS],
        "context": context[: limits["context"]],
        "state": [
            *state.items(thread, facts),
            *_merge(rejected, next_steps),
            *state.lessons(facts, relevance.lesson),
        ],
        "asked": asked[:ASKED],
        "decisions": decisions,
        "questions": questions,
        "files": list(_files(facts.files, relevance, limits["files"], reasons)),
        "commands": list(
            _commands(facts.commands, _failures_told(facts), relevance, limits["commands"])
        ),
    }


def _values(facts: Facts, relevance: Relevance) -> Iterator[Item]:
    """Values that stand only in the thread, those near the goal or lately named, on one line."""
    worth = sorted(
        facts.values,
        key=lambda q: -(relevance.overlap(q.text) + relevance.recency(q.ref)),
    )[:VALUES]
    if worth:
        named = ", ".join(f"`{q.text}`" for q in worth)
        yield Item(
            text=named,
            refs=tuple(q.ref for q in worth),
            label="Only in the thread, not in the tree",
        )


def _merge(*lists: list[Item]) -> Iterator[Item]:
    for i in range(max(map(len, lists), default=0)):
        yield from (items[i] for items in lists if i < len(items))


def _quoted(statement: Statement, label: str = "") -> Item:
    answers = f" — answering: {statement.answers}" if statement.answers else ""
    return Item(text=f'"{statement.text}"{answers}', refs=(statement.ref,), label=label)


def _said(statement: Statement, label: str = "") -> Item:
    return Item(text=statement.text, refs=(statement.ref,), label=label)


def _take(statements: Iterable[Statement], taken: set[str]) -> Iterator[Statement]:
    for statement in statements:
        if statement.text not in taken:
            taken.add(statement.text)
            yield statement


def _asked(
    statements: Sequence[Statement], relevance: Relevance, taken: set[str]
) -> Iterator[Item]:
    """The user's standing wishes, numbers and last requests, to the letter."""
    own = [s for s in statements if s.by_user and s.kind not in ("reversal", "question")]
    last_refs = sorted({s.ref for s in own})[-3:]
    scored = [
        (relevance.statement(s) + 0.7 * (s.ref in last_refs), s)
        for s in own
        if s.weight > 0.5 or (s.ref in last_refs and len(s.text) > 15 and s.weight > -1)
    ]
    yield from (_quoted(s) for s in _take(best(scored, ASKED), taken))


def _decisions(
    statements: Sequence[Statement], relevance: Relevance, limit: int, taken: set[str]
) -> Iterator[Item]:
    scored = [(relevance.statement(s), s) for s in statements if s.kind == "decision"]
    for statement in _take(best(_over(scored, DECISION_FLOOR), limit), taken):
        yield _quoted(statement, "User") if statement.by_user else _said(statement)


def _rejected(
    statements: Sequence[Statement], relevance: Relevance, taken: set[str]
) -> Iterator[Item]:
    """What failed or was called off; a reversal of the user outweighs everything said before."""
    scored = [
        (relevance.statement(s) + 1.0 * s.by_user, s)
        for s in statements
        if s.kind in ("rejected", "reversal") and not s.text.startswith(("If ", "Should "))
    ]
    for statement in _take(best(_over(scored, REJECTED_FLOOR), 8), taken):
        if statement.by_user:
            yield _quoted(statement, "Called off or changed, the user said")
        else:
            yield _said(statement, "Failed or rejected")


def _next_steps(
    statements: Sequence[Statement], facts: Facts, relevance: Relevance, taken: set[str]
) -> Iterator[Item]:
    """What was still to do; steps that a later commit or todo speaks of are left out."""
    scored = [
        (relevance.statement(s) * relevance.freshness(s.ref), s)
        for s in statements
        if s.kind == "next" and not state.done_since(s.text, s.ref, facts)
    ]
    yield from (
        _said(s, "Still to do, as said then")
        for s in _take(best(_over(scored, NEXT_FLOOR), 6), taken)
    )


def _over(
    scored: Iterable[tuple[float, Statement]], floor: float
) -> Iterator[tuple[float, Statement]]:
    return ((score, s) for score, s in scored if score >= floor)


def _questions(
    thread: Thread,
    statements: Sequence[Statement],
    relevance: Relevance,
    limit: int,
    taken: set[str],
) -> Iterator[Item]:
    scored = []
    talk = Talk(thread.entries)
    for statement in statements:
        if statement.kind == "question":
            asks = statement.text.rstrip(")`\"' ").endswith(("?", "？"))
            is_open = not asks or unanswered(statement, talk)
            scored.append((relevance.statement(statement) * (1.3 if is_open else 0.3), statement))
    for statement in _take(best(_over(scored, QUESTION_FLOOR), limit), taken):
        yield _quoted(statement, "User") if statement.by_user else _said(statement)


def _context(
    thread: Thread,
    statements: Sequence[Statement],
    goal: Goal,
    relevance: Relevance,
    limit: int,
    taken: set[str],
) -> Iterator[Item]:
    """Findings by worth, then the lines of code that the goal names."""
    scored = [
        (relevance.statement(s), s)
        for s in statements
        if not s.by_user and s.kind in ("finding", "decision", "rejected", "next")
    ]
    findings = [_said(s) for s in _take(best(scored, limit + 4), taken)]
    code = list(state.goal_lines(thread, goal.text))
    yield from findings[:4]
    yield from code[:2]
    yield from findings[4:]
    yield from code[2:]


def _files(
    files: Sequence[FileFact], relevance: Relevance, limit: int, reasons: bool
) -> Iterator[FileItem]:
    worth = [f for f in files if not is_noise(f.path) and (f.edits or f.reads)]
    for count, file in enumerate(order_files(worth, relevance)):
        if count >= min(limit, FILES_WANTED) and relevance.file(file) < 1.2:
            return
        if count >= limit:
            return
        yield FileItem(
            path=file.path,
            reason=_why_file(file, relevance) if reasons else "",
            refs=file.shown_in,
        )


def _why_file(file: FileFact, relevance: Relevance) -> str:
    """What the thread did to a file, and the names in it, those of the goal first."""
    what = []
    if file.deleted:
        what.append("deleted")
    elif file.edits:
        what.append(f"{'created, ' if file.created else ''}edited {len(file.edits)}×")
    if file.reads and not file.edits:
        what.append(f"read {len(file.reads)}×")
    named = sorted(file.symbols, key=lambda s: -relevance.overlap(s))[:5]
    if named:
        what.append(", ".join(f"`{s}`" for s in named))
    return "; ".join(what)


def _failures_told(facts: Facts) -> set[int]:
    """Runs whose failure the state of the work tells already."""
    checks = {c.refs[-1] for c in facts.last_check}
    return checks | {lesson.failed for lesson in facts.lessons if not lesson.passed}


def _commands(
    commands: Sequence[CommandFact], told: set[int], relevance: Relevance, limit: int
) -> Iterator[CommandItem]:
    """Commands that can be run again, checks first, one of each shape."""
    shapes: set[str] = set()
    count = 0
    for command in sorted(commands, key=lambda c: -relevance.command(c)):
        shape = base_command(command.command)
        if shape in shapes or not (runnable(command.command) or command.check):
            continue
        shapes.add(shape)
        count += 1
        if count > limit:
            return
        yield CommandItem(
            command=short_command(command.command),
            note=command_note(command, command.refs[-1] in told),
            refs=command.refs[-2:],
        )


def command_note(command: CommandFact, told: bool = False) -> str:
    """What came of a command's last run, in few words."""
    if not command.known:
        return "how it ended is not recorded"
    if not command.ok:
        if told:
            return "failed, as above"
        return f"failed: {command.error}" if command.error else "failed"
    selection = (
        " (a selection)" if command.check == "test" and is_selection(command.command) else ""
    )
    return f"{command.outcome or 'ok'}{selection}" if command.check else "ok"


def pack(
    draft: Draft, offered: dict[str, list[Any]], budget: int, handoff_id: str, preamble: bool
) -> Draft:
    """Take what is offered, round by round, while the brief stays within the budget."""
    chosen: dict[str, list[Any]] = {section: [] for section in offered}
    room = budget * 4 - len(render_context(draft, handoff_id, preamble=preamble)) - 8
    left = {section: list(items) for section, items in offered.items()}
    passed: list[tuple[str, Any]] = []
    for section, count in ROUNDS:
        for _ in range(count):
            if not left[section]:
                break
            item = left[section].pop(0)
            heading = 0 if chosen[section] else 42
            cost = len(_line(section, item)) + 1 + heading
            if cost <= room:
                chosen[section].append(item)
                room -= cost
            else:
                passed.append((section, item))
    passed += [(section, item) for section, items in left.items() for item in items]
    packed = msgspec.structs.replace(
        draft,
        **{section: tuple(items) for section, items in chosen.items()},
        left_out=tuple(as_item(item) for _, item in passed),
    )
    return trimmed(packed, handoff_id, budget, preamble=preamble)


def _line(section: str, item: Any) -> str:
    return _LINE.get(section, item_line)(item)


def as_item(item: Any) -> Item:
    """A line of any section as an item of the list of what was left out."""
    if isinstance(item, Item):
        return item
    if isinstance(item, FileItem):
        return Item(text=f"{item.path} — {item.reason}", refs=item.refs)
    return Item(text=f"`{item.command}` — {item.note}", refs=item.refs)
