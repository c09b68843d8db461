"""The author that is nobody: facts and ranked quotes, no model, no key, no invented word.

Every line is the thread's own characters behind a short label. Lines are offered in order of
worth, section by section, and taken until the budget is full.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tasuki.draft import state
from tasuki.draft.authors import choices, packing
from tasuki.draft.authors.task import Task
from tasuki.draft.rank import Relevance, alike, best
from tasuki.draft.statements import Statement, Talk, unanswered
from tasuki.draft.text import one_line
from tasuki.model import (
    Draft,
    Facts,
    Goal,
    Item,
    Thread,
)

ASKED = 20
PREVIOUS = 16
VALUES = 6
REJECTED_FLOOR = 0.9
NEXT_FLOOR = 0.9
DECISION_FLOOR = 0.6
QUESTION_FLOOR = 0.6
ASKED_FLOOR = 0.55
ADVISED = 0.12
"""Scores under which a sentence is not worth a line; seen on real threads."""


def write(
    task: Task, draft: Draft, *, budget: int, handoff_id: str, reasons: bool, preamble: bool
) -> Draft:
    """A draft that fits `budget` tokens without the goal, what did not fit in `left_out`.

    `draft` holds what is known beside the thread: metadata, drift, the skill.
    """
    offered = offer(task, reasons, budget)
    return packing.pack(draft, offered, budget, handoff_id, preamble)


def offer(task: Task, reasons: bool, budget: int) -> dict[str, list[Any]]:
    """Everything worth a line, by section, best first, within the caps.

    How many files are named, and how many names in them, grows with the budget of tokens.
    """
    thread, facts, goal, relevance = task.thread, task.derived.facts, task.goal, task.relevance
    limits = task.limits
    stated = task.stated
    seen_before = list(state.goal_errors(thread, facts, goal.text))
    taken = Taken()
    asked = list(_asked(stated, facts, relevance, taken))
    decisions = list(_decisions(stated, relevance, limits["decisions"], taken))
    rejected = list(_rejected(stated, facts, relevance, taken))
    next_steps = list(_next_steps(stated, facts, relevance, taken))
    questions = list(_questions(thread, stated, relevance, limits["questions"], taken))
    context = [
        *seen_before,
        *state.last_message(thread, goal.text),
        *state.goal_quotes(thread, goal.text),
        *_values(facts, relevance),
        *_context(thread, stated, goal, relevance, limits["context"], taken),
    ]
    context = _as_said(context[: limits["context"]], thread)
    return {
        "previous": [Item(text=q.text, refs=(q.ref,)) for q in facts.previous][:PREVIOUS],
        "context": context,
        "state": [
            *state.items(thread, facts),
            *_merge(rejected, next_steps),
            *state.lessons(facts, relevance.lesson),
        ],
        "asked": asked[:ASKED],
        "decisions": decisions,
        "questions": questions,
        "files": list(choices.files(task, limits["files"], reasons, budget)),
        "commands": list(
            choices.commands(facts.commands, _failures_told(facts), relevance, limits["commands"])
        ),
    }


def _as_said(items: list[Item], thread: Thread) -> list[Item]:
    """Items by worth, but what one message said stands together, in its own order."""
    cited = {item.refs[0] for item in items if item.refs}
    texts = {e.ref: one_line(e.text.replace("**", "")) for e in thread.entries if e.ref in cited}
    first = {item.refs: at for at, item in reversed(list(enumerate(items)))}

    def place(item: Item) -> tuple[int, int]:
        said_at = texts.get(item.refs[0], "").find(item.text[:40]) if item.refs else 0
        return first[item.refs], said_at

    return sorted(items, key=place)


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


class Taken:
    """What one section told already, so that no other says nearly the same."""

    def __init__(self) -> None:
        self._bags: list[set[str]] = []

    def adds(self, text: str) -> bool:
        """Whether a text says something new; then it is told from now on."""
        bag = set(_PLAIN_WORD.findall(text.lower()))
        if any(alike(bag, other) if len(bag) > 2 else bag == other for other in self._bags):
            return False
        self._bags.append(bag)
        return True


_PLAIN_WORD = re.compile(r"[^\W_]{2,}")


def _take(statements: Iterable[Statement], taken: Taken) -> Iterator[Statement]:
    return (s for s in statements if taken.adds(s.text))


_ERRAND = re.compile(
    r"\b(?:commit|push|merge|rebase|pr|pull request)\b|(?:^|\s)/[a-z][\w:-]+", re.IGNORECASE
)
ERRAND = 120
"""Characters up to which a message that names git or a slash command is an errand of its time."""


def _is_errand(statement: Statement, facts: Facts) -> bool:
    """Whether somebody was sent to commit, merge or push, which a later commit shows as done."""
    small = statement.kind == "request" and statement.weight < 1.3 and len(statement.text) < ERRAND
    later = any(q.ref > statement.ref for q in (*facts.revision.commits, *facts.subjects))
    return small and later and bool(_ERRAND.search(statement.text))


def _asked(
    statements: Sequence[Statement], facts: Facts, relevance: Relevance, taken: Taken
) -> Iterator[Item]:
    """The user's standing wishes, numbers and last requests, to the letter."""
    own = [s for s in statements if s.by_user and s.kind not in ("reversal", "question")]
    own = [s for s in own if s.text not in relevance.goal and not _is_errand(s, facts)]
    last_refs = sorted({s.ref for s in own})[-3:]
    scored = [
        (relevance.statement(s) + 0.7 * (s.ref in last_refs), s)
        for s in own
        if s.weight > (ASKED_FLOOR if s.kind == "request" else 0.5)
        or (s.ref in last_refs and len(s.text) > 15 and s.weight > -1)
    ]
    yield from (_quoted(s) for s in _take(best(scored, ASKED), taken))


def _decisions(
    statements: Sequence[Statement], relevance: Relevance, limit: int, taken: Taken
) -> Iterator[Item]:
    scored = [
        (relevance.statement(s) + 0.4 * s.by_user, s) for s in statements if s.kind == "decision"
    ]
    for statement in _take(best(_over(scored, DECISION_FLOOR), limit), taken):
        yield _quoted(statement, "User") if statement.by_user else _said(statement)


def _rejected(
    statements: Sequence[Statement], facts: Facts, relevance: Relevance, taken: Taken
) -> Iterator[Item]:
    """What failed or was called off; a reversal of the user outweighs everything said before."""
    scored = [
        (relevance.statement(s) + 1.0 * s.by_user, s)
        for s in statements
        if s.kind in ("rejected", "reversal")
        and not s.text.startswith(("If ", "Should "))
        and not (_FAILS.search(s.text) and _passed_since(s.ref, facts))
    ]
    for statement in _take([s for s in statements if _advises_against(s, relevance)], taken):
        yield _said(statement, "Overruled by the goal, as said before it")
    for statement in _take(best(_over(scored, REJECTED_FLOOR), 8), taken):
        if statement.by_user:
            yield _quoted(statement, "Called off or changed, the user said")
        else:
            yield _said(statement, "Failed or rejected")


def _next_steps(
    statements: Sequence[Statement], facts: Facts, relevance: Relevance, taken: Taken
) -> Iterator[Item]:
    """What was still to do; steps that a later commit or todo speaks of are left out."""
    scored = [
        (relevance.statement(s) * relevance.freshness(s.ref), s)
        for s in statements
        if s.kind == "next"
        and (s.ref == relevance.last_spoken or _LEFT_TO_DO.search(s.text))
        and not state.done_since(s.text, s.ref, facts)
        and not _advises_against(s, relevance)
    ]
    yield from (
        _said(s, "Still to do, as said then")
        for s in _take(best(_over(scored, NEXT_FLOOR), 6), taken)
    )


_LEFT_TO_DO = re.compile(
    r"\b(?:follow[- ]?ups?|still (?:needs?|has to|have to|missing|owe|open|to do)|not (?:yet )?(?:implemented|wired|covered|tested|handled|started|done)|"
    r"todo|to-do|left to do|(?:is|are) (?:missing|pending)|remaining|remains|unfinished|untested|yet to|i(?:'d| would) \w+ it|what's left|next step|"
    r"noch|fehl\w+|müssen|nächste\w*|falta|queda|pendiente|reste)\b|[^\W\x00-\u024f]",
    re.IGNORECASE,
)
"""Words by which a sentence that is not among the last ones still tells of work to do."""
_FAILS = re.compile(r"\b(?:fails?|failing|still (?:red|broken))\b", re.IGNORECASE)


def _passed_since(ref: int, facts: Facts) -> bool:
    """Whether the last test run came after an entry and passed."""
    return any(c.check == "test" and c.ok and c.refs[-1] > ref for c in facts.last_check)


SUMMED_UP = 0.3
_SUMMARY = re.compile(
    r"`?[\w./-]+\.\w+`?(?::\d\S*)? [-–—] |(?:New|Core|Updated|Added|Removed|Renamed|Moved|Created|Deleted|Pros|Cons)\b.{0,90}$"
)
"""A line of a summary of changes, which the state of the work tells already."""
_AGAINST = re.compile(
    r"\b(?:leave \S+ \S+ out|leave (?:it|that|this|them) out|don'?t|do not|wouldn'?t|would not|shouldn'?t|not worth|"
    r"skip|avoid|rather not|without|no need)\b",
    re.IGNORECASE,
)


def _advises_against(statement: Statement, relevance: Relevance) -> bool:
    """Whether the agent's last words advise against what the goal then asks for."""
    late = not statement.by_user and statement.ref == relevance.last_spoken
    return (
        late
        and statement.kind != "question"
        and relevance.overlap(statement.text) >= ADVISED
        and bool(_AGAINST.search(statement.text))
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
    taken: Taken,
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
    taken: Taken,
) -> Iterator[Item]:
    """Findings by worth, then the lines of code that the goal names."""
    scored = [
        (relevance.statement(s), s)
        for s in statements
        if not s.by_user
        and s.kind in ("finding", "decision", "rejected", "next")
        and not (_SUMMARY.match(s.text) and relevance.overlap(s.text) < SUMMED_UP)
        and not _advises_against(s, relevance)
    ]
    findings = [_said(s) for s in _take(best(scored, limit + 4), taken)]
    code = list(state.goal_lines(thread, goal.text))
    yield from findings[:4]
    yield from code[:2]
    yield from findings[4:]
    yield from code[2:]


def _failures_told(facts: Facts) -> set[int]:
    """Runs whose failure the state of the work tells already."""
    checks = {c.refs[-1] for c in facts.last_check}
    return checks | {lesson.failed for lesson in facts.lessons if not lesson.passed}
