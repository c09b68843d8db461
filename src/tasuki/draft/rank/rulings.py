"""What the user asked for and ruled, in their own words and in the order of time.

The last messages are quoted whole; of older ones only the sentences that bind. Pasted text
and the agent's own option texts are never the user's words
(`statements.extract_user_statements`).
"""

from collections.abc import Sequence

from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.text.entries import ThreadTurn
from tasuki.draft.text.language_cues import is_approval
from tasuki.draft.text.split import fold_whitespace, split_sentences
from tasuki.model import Item

LAST_WHOLE = 3
"""Newest messages that are quoted whole."""
JOINED = " … "
"""Between sentences of one message that do not follow one another."""
LATE_BONUS, FIRST_BONUS = 3.0, 1.0
"""Additional worth of a sentence in the last messages, and in the first one."""
MIN_LENGTH, LENGTH_POWER = 40, 0.3
"""Of two sentences that bind equally, the shorter one comes first."""
ANSWERED_PENALTY = 0.8
"""What a question that the agent answered is worth less."""
MIN_WORTH = 0.1
"""Minimum worth of a quoted sentence of an older message; below are small talk and
finished errands.
"""


def quote_rulings(
    turns: Sequence[ThreadTurn],
    stated: Sequence[Statement],
    relevance: Relevance,
    room: int,
    goal: str = "",
) -> tuple[list[Item], list[Item]]:
    """Return the user's words as items in the order of time, and what was left out.

    The items fit into `room` characters. Each cites the message and, if the agent answered it,
    the message that concluded the turn. A last message that is the goal itself is at the end of
    the brief, and not here.
    """
    by_ref = {turn.prompt.ref: turn for turn in turns if turn.prompt}
    newest = by_ref.get(max(by_ref, default=0))
    if (
        newest
        and newest.prompt
        and goal
        and fold_whitespace(newest.prompt.text) == fold_whitespace(goal)
    ):
        del by_ref[newest.prompt.ref]
    late = set(list(by_ref)[-LAST_WHOLE:])
    first = next(iter(by_ref), 0)
    own = [s for s in stated if s.by_user and s.ref in by_ref]
    last = max(by_ref, default=0)
    forms = {t.prompt.ref for t in turns if t.prompt and t.prompt.origin == "answer"}
    worth = {
        s: relevance.score_statement(s)
        + LATE_BONUS * (s.ref in late)
        + FIRST_BONUS * (s.ref == first)
        - ANSWERED_PENALTY * (is_only_question(s) and bool(by_ref[s.ref].messages))
        for s in own
        if s.ref == last or s.ref in forms or s.answers or not is_approval(s.text)
    }
    own = [s for s in own if s in worth]
    chosen: dict[int, list[Statement]] = {}
    left: list[Statement] = []
    for statement in sorted(
        own, key=lambda s: (-worth[s] / max(len(s.text), MIN_LENGTH) ** LENGTH_POWER, -s.ref)
    ):
        cost = (
            len(statement.text)
            + len(statement.answers)
            + len(statement.refuses)
            + (18 if statement.ref not in chosen else 5)
        )
        if cost > room or worth[statement] < MIN_WORTH:
            left.append(statement)
            continue
        room -= cost
        chosen.setdefault(statement.ref, []).append(statement)
    order = {s: n for n, s in enumerate(own)}
    for group_statements in chosen.values():
        group_statements.sort(key=order.__getitem__)
    items = [
        _build_item(by_ref[ref], group)
        for ref in sorted(chosen)
        for group in _group_statements(chosen[ref])
    ]
    return items, [_build_item(by_ref[s.ref], [s]) for s in left if worth[s] >= MIN_WORTH]


def _group_statements(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Group the chosen sentences of one message; each answer is separate, with its question."""
    groups: list[list[Statement]] = []
    for statement in statements:
        if groups and not statement.answers and not groups[-1][-1].answers:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _build_item(turn: ThreadTurn, statements: Sequence[Statement]) -> Item:
    """Return the chosen sentences of one message as an item, in their own order."""
    asked, end = turn.prompt, turn.conclusion
    assert asked is not None
    words = JOINED.join(f"{s.number} {s.text}" if s.number else s.text for s in statements)
    answers = next((f" — answering: {s.answers}" for s in statements if s.answers), "")
    refuses = next((f" — refusing: {s.refuses}" for s in statements if s.refuses), "")
    refs = (asked.ref, *((end.ref,) if end else ()))
    return Item(text=f'"{words}"{refuses or answers}', refs=refs)


def is_only_question(statement: Statement) -> bool:
    """Return whether a message, or its quoted part, asks and says nothing else."""
    parts = list(split_sentences(statement.text))
    return statement.kind == "question" and all(p.rstrip("\"')` ").endswith("?") for p in parts)
