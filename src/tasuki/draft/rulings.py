"""What the user asked for and ruled, in their own words and in the order of time.

The last messages stand whole; of older ones the sentences that bind. Pasted text and the agent's own
option texts are never the user's words (`statements.of_user`).
"""

from collections.abc import Sequence

from tasuki.draft.rank import Relevance
from tasuki.draft.said import is_approval
from tasuki.draft.statements import Statement
from tasuki.draft.text import one_line, sentences
from tasuki.draft.turns import Turn
from tasuki.model import Item

LAST_WHOLE = 3
"""Messages, the newest, that are quoted whole."""
JOINED = " … "
"""Between sentences of one message that do not follow one another."""
LATE, FIRST = 3.0, 1.0
"""What a sentence is worth more in the last messages, and in the first one."""
LEAST_LENGTH, LENGTH_POWER = 40, 0.3
"""Of two sentences that bind alike the shorter one comes first."""
ANSWERED = 0.8
"""What a question is worth less that the agent answered."""
LEAST = 0.1
"""Worth under which a sentence of an older message is not quoted: small talk, errands that were run."""


def quote_rulings(
    turns: Sequence[Turn],
    stated: Sequence[Statement],
    relevance: Relevance,
    room: int,
    goal: str = "",
) -> tuple[list[Item], list[Item]]:
    """The user's words as items in the order of time, within `room` characters; and what was left out.

    Each item cites the message and, where the agent answered it, the message that concluded the turn.
    A last message that is the goal itself stands at the end of the brief, and not here.
    """
    by_ref = {turn.asked.ref: turn for turn in turns if turn.asked}
    newest = by_ref.get(max(by_ref, default=0))
    if newest and newest.asked and goal and one_line(newest.asked.text) == one_line(goal):
        del by_ref[newest.asked.ref]
    late = set(list(by_ref)[-LAST_WHOLE:])
    first = next(iter(by_ref), 0)
    own = [s for s in stated if s.by_user and s.ref in by_ref]
    last = max(by_ref, default=0)
    forms = {t.asked.ref for t in turns if t.asked and t.asked.origin == "answer"}
    worth = {
        s: relevance.statement(s)
        + LATE * (s.ref in late)
        + FIRST * (s.ref == first)
        - ANSWERED * (is_only_question(s) and bool(by_ref[s.ref].said))
        for s in own
        if s.ref == last or s.ref in forms or s.answers or not is_approval(s.text)
    }
    own = [s for s in own if s in worth]
    chosen: dict[int, list[Statement]] = {}
    left: list[Statement] = []
    for statement in sorted(
        own, key=lambda s: (-worth[s] / max(len(s.text), LEAST_LENGTH) ** LENGTH_POWER, -s.ref)
    ):
        cost = (
            len(statement.text)
            + len(statement.answers)
            + len(statement.refuses)
            + (18 if statement.ref not in chosen else 5)
        )
        if cost > room or worth[statement] < LEAST:
            left.append(statement)
            continue
        room -= cost
        chosen.setdefault(statement.ref, []).append(statement)
    order = {s: n for n, s in enumerate(own)}
    for said in chosen.values():
        said.sort(key=order.__getitem__)
    items = [_item(by_ref[ref], group) for ref in sorted(chosen) for group in _groups(chosen[ref])]
    return items, [_item(by_ref[s.ref], [s]) for s in left if worth[s] >= LEAST]


def _groups(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Chosen sentences of one message; each answer stands by itself, so that its question is told with it."""
    groups: list[list[Statement]] = []
    for statement in statements:
        if groups and not statement.answers and not groups[-1][-1].answers:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _item(turn: Turn, statements: Sequence[Statement]) -> Item:
    """The chosen sentences of one message, in its own order."""
    asked, end = turn.asked, turn.conclusion
    assert asked is not None
    words = JOINED.join(f"{s.number} {s.text}" if s.number else s.text for s in statements)
    answers = next((f" — answering: {s.answers}" for s in statements if s.answers), "")
    refuses = next((f" — refusing: {s.refuses}" for s in statements if s.refuses), "")
    refs = (asked.ref, *((end.ref,) if end else ()))
    return Item(text=f'"{words}"{refuses or answers}', refs=refs)


def is_only_question(statement: Statement) -> bool:
    """Whether a message, or the part of it that is quoted, asks and says nothing besides."""
    parts = list(sentences(statement.text))
    return statement.kind == "question" and all(p.rstrip("\"')` ").endswith("?") for p in parts)
