"""What a waiting agent asks: built from its hook's words, compared with what its screen shows.

Everything that is kept is without secrets. A question has a mark, by which an answer names it; the
same question asked again has another one.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.draft.redact.screen import redact_screen
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import AgentQuestion, FleetAgent, QuestionChoice
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.questions import AskedQuestion, ScreenQuestion
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

MOST_DETAIL_CHARACTERS = 8000
MOST_TEXT_CHARACTERS = 600
MOST_LABEL_CHARACTERS = 300
TAIL_CHARACTERS = 48
"""The end of a detail that must be on a screen that has no room for all of it."""
DRAWN_SECONDS = 2.0
"""How long the screen may take to show what a hook reported."""
UNKNOWN = "It asks something in its terminal."

_REDACTED = compile_pattern(r"\[REDACTED:[^\]]*\]")
_NO_LETTERS = compile_pattern(r"[\s\u2014\u2500-\u259f]+")
"""White space, lines and blocks of a box, and the dash between a label and its description."""


def build_question(event: AgentEvent, asked_at: float) -> AgentQuestion:
    """Build the question that a `waiting` event reports."""
    asked = event.question or AskedQuestion(event.text or UNKNOWN, kind="free")
    redactor = Redactor()
    detail = redactor.redact(clean_for_display(asked.detail))
    question = AgentQuestion(
        text=shorten_to_line(redactor.redact(clean_for_display(asked.text)), MOST_TEXT_CHARACTERS),
        mark="",
        asked_at=asked_at,
        detail=_cut(detail),
        kind=asked.kind,
        choices=tuple(
            QuestionChoice(str(number), _clean_label(label, redactor))
            for number, label in enumerate(asked.labels[:9], 1)
        ),
        shown=_strip_space(redactor.redact(clean_for_display(asked.shown)))[
            :MOST_DETAIL_CHARACTERS
        ],
        is_command=asked.is_command and len(asked.shown) < MOST_DETAIL_CHARACTERS,
    )
    return _mark(question)


def read_from_screen(
    question: AgentQuestion | None, seen: ScreenQuestion | None, seen_at: float
) -> AgentQuestion | None:
    """Return the question of an agent once its screen was read.

    A question that is on the screen gets its choices. One that is not, and was reported long enough
    ago, is replaced by the one that is. Without a dialog that is known, words can be the answer.
    """
    if seen is None:
        if question is None or question.is_read:
            return question
        return replace(question, takes_text=True)
    redactor = Redactor()
    if question and is_on_screen(question, seen):
        choices = _name_choices(question, seen, redactor)
        takes_text = seen.text_keys is not None
        return replace(
            question, choices=choices, takes_text=takes_text, takes_several=seen.takes_several,
            is_read=True,
        )  # fmt: skip
    if question and question.shown and seen_at - question.asked_at < DRAWN_SECONDS:
        return question
    return _build_from_screen(seen, seen_at, redactor)


def _build_from_screen(seen: ScreenQuestion, seen_at: float, redactor: Redactor) -> AgentQuestion:
    detail = redact_screen(clean_for_display(seen.detail))
    text = redact_screen(clean_for_display(seen.text))
    question = AgentQuestion(
        text=shorten_to_line(text, MOST_TEXT_CHARACTERS) or UNKNOWN,
        mark="",
        asked_at=seen_at,
        detail=_cut(detail),
        kind="choice" if seen.choices else "free",
        takes_text=seen.text_keys is not None,
        takes_several=seen.takes_several,
        is_review=bool(seen.answers),
        is_read=True,
        shown=_strip_space(detail + text),
    )
    return _mark(replace(question, choices=_name_choices(question, seen, redactor)))


def is_on_screen(question: AgentQuestion, seen: ScreenQuestion) -> bool:
    """Whether a screen shows this very question, as far as a screen can tell.

    A command must be the one on the screen and no part of it: several may have been asked for at
    once. Secrets may be anything. Where the screen has no room for all of it, its end counts. The
    answers before they are sent repeat the questions, and are another question.
    """
    if question.is_review != bool(seen.answers):
        return False
    body = _strip_space(clean_for_display(seen.detail) + clean_for_display(seen.text))
    command = _strip_space(clean_for_display(seen.command))
    if question.is_command and command and seen.is_whole and "…" not in command:
        return _match_pieces(_REDACTED.split(question.shown), command, is_exact=True)
    if _match_pieces(_REDACTED.split(question.shown), body):
        return bool(question.shown)
    tail = question.shown[-TAIL_CHARACTERS:]
    is_cut = "…" in body or not seen.is_whole
    return is_cut and len(tail) == TAIL_CHARACTERS and tail in body


def is_reviewed(question: AgentQuestion, seen: ScreenQuestion) -> bool:
    """Whether a screen shows the answer to a question before it is sent."""
    body = _strip_space(clean_for_display(seen.detail))
    is_named = _match_pieces(_REDACTED.split(question.shown), body)
    return bool(seen.answers and question.shown) and is_named


def _match_pieces(pieces: Sequence[str], text: str, *, is_exact: bool = False) -> bool:
    """Whether a text holds these pieces in order, or with `is_exact` begins and ends with them."""
    place = 0
    for piece in pieces:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return not is_exact or (
        text.startswith(pieces[0])
        and text.endswith(pieces[-1])
        and (len(pieces) > 1 or text == pieces[0])
    )


def _name_choices(
    question: AgentQuestion, seen: ScreenQuestion, redactor: Redactor
) -> tuple[QuestionChoice, ...]:
    """Name the choices of a screen: in the words of the hook, where it has the same ones."""
    known = {_strip_space(choice.label): choice.label for choice in question.choices}
    labels = [(choice.key, _clean_label(choice.label, redactor)) for choice in seen.choices]
    return tuple(
        QuestionChoice(key, known.get(_strip_space(label), label)) for key, label in labels
    )


def describe_question(question: AgentQuestion) -> str:
    """Describe a question for an alert: what is asked, and about which command."""
    return f"{question.text} {question.detail}".strip()


def dump_question(question: AgentQuestion | None) -> dict[str, Any] | None:
    """Return a question as a column keeps it."""
    return msgspec.to_builtins(question) if question else None


def load_question(value: Any) -> AgentQuestion | None:
    """Return a question from its column."""
    return msgspec.convert(value, AgentQuestion) if value else None


def redact_question(value: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return the data of a question without secrets; its mark and its times stay."""
    fields = ("text", "detail", "choices", "answer")
    return {**value, **{name: redactor.redact_data(value[name]) for name in fields}}


def replace_question(
    database: FleetDatabase, agent: FleetAgent, question: AgentQuestion | None
) -> bool:
    """Replace the question of a waiting agent; return whether it still was that one."""
    with database.write() as connection:
        current = connection.execute(_FIND_QUESTION, {"agent": agent.id}).first()
        if current is None or load_question(current.question) != agent.question:
            return False
        values: dict[str, object] = {"question": dump_question(question)}
        if question and (agent.question is None or question.mark != agent.question.mark):
            values["waiting_for"] = shorten_to_line(question.text, 200)
        connection.execute(
            sa.update(tables.agents).where(tables.agents.c.id == agent.id).values(**values)
        )
        log.note(connection, "question", _describe_new(question), agent_id=agent.id)
    return True


def _describe_new(question: AgentQuestion | None) -> str:
    """Describe what became of a question, for the log."""
    if question is None:
        return "It asks nothing any more"
    if question.answered_at:
        return f"Answered: {question.answer}"
    labels = ", ".join(choice.label for choice in question.choices)
    return f"{question.text} It offers: {labels}" if labels else question.text


def _cut(detail: str) -> str:
    if len(detail) <= MOST_DETAIL_CHARACTERS:
        return detail
    more = len(detail) - MOST_DETAIL_CHARACTERS
    return f"{detail[:MOST_DETAIL_CHARACTERS]}\n… {more:,} characters more: look at its pane."


def _clean_label(label: str, redactor: Redactor) -> str:
    return shorten_to_line(redactor.redact(clean_for_display(label)), MOST_LABEL_CHARACTERS)


def _strip_space(text: str) -> str:
    """Return a text without white space and lines of boxes: a screen breaks it anywhere."""
    return _NO_LETTERS.sub("", text)


def _mark(question: AgentQuestion) -> AgentQuestion:
    words = f"{question.text}\n{question.detail}\n{question.asked_at!r}"
    digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()
    return replace(question, mark=digest[:16])


_FIND_QUESTION = (
    sa.select(tables.agents.c.question)
    .where(tables.agents.c.id == sa.bindparam("agent"), tables.agents.c.state == "waiting")
    .with_for_update()
)
