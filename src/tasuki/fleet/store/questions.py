"""What a waiting agent asks: built from its hook's words, compared with what its screen shows.

Everything that is kept is without secrets. A question has a mark, by which an answer names it; the
same question asked again has another one.
"""

import hashlib
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.draft.redact.screen import redact_screen, replace_characters
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness.dialogs import find_cut, find_excuse, is_subject, join_subject, strip_label
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.questions import AskedQuestion, DialogSubject, ScreenQuestion
from tasuki.hidden_text import is_hidden, show_hidden
from tasuki.text_safety import clean_for_display, cut_middle, shorten_to_line

MOST_DETAIL_CHARACTERS = 8000
MOST_TEXT_CHARACTERS = 600
MOST_WORDS_CHARACTERS = 300
MOST_LABEL_CHARACTERS = 2000
MOST_BEHIND = 16
DRAWN_SECONDS = 2.0
"""How long the screen may take to show what a hook reported."""
UNKNOWN = "It asks something in its terminal."

TALL = "Its dialog is taller than the terminal: read it there."
TOO_LONG = "It is too long to be shown whole here: read it in its terminal."
SECRET = "A secret is hidden in it here: answer it in its terminal."  # noqa: S105
OTHER = "Nothing proves that its dialog asks about exactly this: read it in its terminal."
UNSEEN = "Its dialog is not known here: read it in its terminal."
PARTIAL = "Its dialog may not show all that it asks about: read it in its terminal."
NO_KEYS = "Its choices are taken in its terminal."


def build_question(event: AgentEvent, asked_at: float) -> AgentQuestion:
    """Build the question that a `waiting` event reports."""
    asked = event.question or AskedQuestion(event.text or UNKNOWN, kind="free")
    redactor = Redactor()
    is_exact = asked.subject is not None and asked.subject.kind in ("command", "fields")
    detail = _show_detail(asked.detail, redactor, is_exact)
    if asked.more:
        detail += f"\n\u27e8with\u27e9 {_show(asked.more, redactor, True)}"
    file = "\u27e8U+000A\u27e9".join(_show(row, redactor, True) for row in asked.file.split("\n"))
    question = AgentQuestion(
        text=_clean_line(asked.text, redactor, MOST_TEXT_CHARACTERS),
        mark="",
        asked_at=asked_at,
        detail=_cut(detail),
        file=_cut(file).replace("\n", " "),
        words=_clean_line(asked.words, redactor, MOST_WORDS_CHARACTERS),
        lines=len(asked.detail.removesuffix("\n").split("\n")) if asked.detail else 0,
        characters=len(asked.detail),
        kind=asked.kind,
        choices=tuple(
            QuestionChoice(str(number), _clean_label(label, redactor))
            for number, label in enumerate(asked.labels[:9], 1)
        ),
        is_reported=asked.kind != "free",
        child=event.child,
    )
    if max(len(asked.detail) // 4, len(detail), 4 * len(file)) > MOST_DETAIL_CHARACTERS:
        return _mark(replace(question, obstacle=TOO_LONG))
    if question.has_secret or _has_secret(asked.subject):
        return _mark(replace(question, obstacle=SECRET))
    return _mark(replace(question, subject=asked.subject))


def _show_detail(detail: str, redactor: Redactor, is_exact: bool) -> str:
    """Return what a question is about as it is shown; of very much both ends."""
    most = 2 * MOST_DETAIL_CHARACTERS
    if len(detail) <= 2 * most:
        return _show(detail, redactor, is_exact)
    first, last = (_show(part, redactor, is_exact) for part in (detail[:most], detail[-most:]))
    return f"{first[:most]}\n\u27e8the middle is left out\u27e9\n{last[-most:]}"


def _show(text: str, redactor: Redactor, is_exact: bool = False) -> str:
    return show_hidden(_redact_whole(text, redactor), is_exact=is_exact)


def _has_secret(subject: DialogSubject | None) -> bool:
    """Whether anything with which a dialog is compared is a secret: that is not kept."""
    if subject is None:
        return False
    text = "\n".join((subject.text, subject.before or "", subject.place, *subject.labels))
    return _redact_whole(text, Redactor()) != text


def _redact_whole(text: str, redactor: Redactor) -> str:
    """Return a text without its secrets, also where hidden characters are in them."""
    if text.isascii() and text.isprintable():
        return redactor.redact(text)
    kept = [n for n, letter in enumerate(text) if letter == "\n" or not is_hidden(letter)]
    hidden: dict[int, str] = {}
    for span in redactor.find_everywhere("".join(text[n] for n in kept)):
        first, end = kept[span.start], kept[span.end - 1] + 1
        hidden.update(dict.fromkeys(range(first, end), span.kind))
    return redactor.redact(replace_characters(text, hidden))


def read_from_screen(
    question: AgentQuestion | None, seen: ScreenQuestion | None, seen_at: float
) -> AgentQuestion | None:
    """Return the question of an agent once its screen was read.

    The one that is on the screen gets its choices. What a hook reported is never replaced by a
    dialog that may be about the same: it has an obstacle then. A question of the agent itself is
    replaced by the next one.
    """
    is_young = question is not None and seen_at - question.asked_at < DRAWN_SECONDS
    if seen is None:
        if question is None or question.is_read or is_young:
            return question
        return _hold(question, question.obstacle or UNSEEN)
    known = (*question.behind, question) if question else ()
    for one in reversed(known):
        if is_on_screen(one, seen):
            behind = tuple(_set_back(other) for other in known if other is not one)
            return _offer(replace(one, behind=behind), seen)
    if question and question.is_reported:
        if is_young:
            return question
        permissions = [one for one in known if one.is_reported and one.kind != "choice"]
        if permissions or not seen.is_whole:
            held = permissions[-1] if permissions else question
            behind = tuple(_set_back(other) for other in known if other is not held)
            return _hold(replace(held, behind=behind), find_obstacle(held, seen))
    return _offer(_build_from_screen(seen, seen_at), seen)


def _hold(question: AgentQuestion, obstacle: str) -> AgentQuestion:
    """Return a question that cannot be answered from here, and why."""
    return replace(
        question, choices=(), takes_text=False, takes_several=False, is_read=True, obstacle=obstacle
    )


def _offer(question: AgentQuestion, seen: ScreenQuestion) -> AgentQuestion:
    """Return a question that is on the screen with the choices there, unless there is an obstacle."""
    if obstacle := find_obstacle(question, seen):
        return _hold(question, obstacle)
    return replace(
        question, choices=_name_choices(question, seen), takes_text=seen.text_keys is not None,
        takes_several=seen.takes_several, is_read=True, obstacle="",
    )  # fmt: skip


def find_obstacle(question: AgentQuestion, seen: ScreenQuestion) -> str:
    """Find why a question cannot be answered from here, as a sentence; empty where it can.

    Only what tasuki shows whole is answered, and only in a dialog that shows exactly that.
    """
    is_same = is_on_screen(question, seen)
    rows = (*seen.above, *seen.below, *(() if is_same and question.is_reported else seen.subject))
    if excuse := find_excuse(rows):
        return f"Its program says \u201c{excuse}\u201d: read it in its terminal."
    if question.is_reported and not question.subject and question.obstacle in (TOO_LONG, SECRET):
        return question.obstacle
    if not seen.is_whole or find_cut(rows):
        return TALL
    if not is_same:
        return OTHER
    if not question.is_reported and not (seen.is_faithful and "\ufffd" not in question.detail):
        return PARTIAL
    if any(len(choice.label) > MOST_LABEL_CHARACTERS for choice in seen.choices):
        return TOO_LONG
    if replace(question, choices=_name_choices(question, seen)).has_secret:
        return SECRET
    return "" if seen.choices or seen.text_keys is not None else NO_KEYS


def _build_from_screen(seen: ScreenQuestion, seen_at: float) -> AgentQuestion:
    """Build the question that a screen shows; what it is about comes first, then all around it."""
    subject = join_subject(seen.subject)
    detail = show_hidden(redact_screen(seen.detail))
    if subject:
        detail = (
            f"{show_hidden(redact_screen(subject), is_exact=True)}\n\u27e8above it\u27e9\n{detail}"
        )
    question = AgentQuestion(
        text=_clean_line(redact_screen(seen.text), Redactor(), MOST_TEXT_CHARACTERS) or UNKNOWN,
        mark="", asked_at=seen_at, detail=detail, lines=len((subject or seen.detail).split("\n")),
        characters=len(subject or seen.detail), kind="choice" if seen.choices else "free",
        is_review=bool(seen.answers),
    )  # fmt: skip
    return _mark(question)


def is_on_screen(question: AgentQuestion, seen: ScreenQuestion) -> bool:
    """Whether a screen shows this very question and all of it, as far as a screen can tell.

    Several may have been asked for at once. The answers before they are sent repeat the questions,
    and are another question.
    """
    if question.is_review != bool(seen.answers):
        return False
    if question.is_reported:
        return question.subject is not None and is_subject(question.subject, seen)
    return question.mark == _build_from_screen(seen, question.asked_at).mark


def is_reviewed(question: AgentQuestion, seen: ScreenQuestion) -> bool:
    """Whether a screen shows the answer to a question before it is sent."""
    asked = strip_label(question.subject.text if question.subject else question.text)
    return bool(seen.answers and asked) and asked in strip_label(redact_screen(seen.detail))


def _name_choices(question: AgentQuestion, seen: ScreenQuestion) -> tuple[QuestionChoice, ...]:
    """Name the choices of a screen: in the words of the hook, where it has the same ones."""
    redactor = Redactor()
    names = question.subject.labels if question.subject else ()
    known = {strip_label(name): name for name in names}
    labels = [(one.key, known.get(strip_label(one.label), one.label)) for one in seen.choices]
    return tuple(QuestionChoice(key, _clean_label(label, redactor)) for key, label in labels)


def add_question(before: AgentQuestion | None, question: AgentQuestion) -> AgentQuestion:
    """Return a new question with those of other sub-agents behind it: each has one open at most."""
    kept = [one for one in _list_open(before) if one.child != question.child]
    return replace(question, behind=tuple(kept[-MOST_BEHIND:]))


def keep_of_children(question: AgentQuestion | None) -> AgentQuestion | None:
    """Return what sub-agents still ask once the agent itself goes on."""
    return _put_first([one for one in _list_open(question) if one.child])


def drop_child(question: AgentQuestion, child: str) -> AgentQuestion | None:
    """Return what is still asked once a sub-agent has ended."""
    if child not in [one.child for one in (question, *question.behind)]:
        return question
    return _put_first([one for one in _list_open(question) if one.child != child])


def _put_first(known: list[AgentQuestion]) -> AgentQuestion | None:
    return replace(known[-1], behind=tuple(known[:-1])) if known else None


def _list_open(question: AgentQuestion | None) -> list[AgentQuestion]:
    known = (*question.behind, question) if question else ()
    return [_set_back(one) for one in known if one.is_reported and one.answered_at is None]


def _set_back(question: AgentQuestion) -> AgentQuestion:
    """Return a question that the screen does not show now."""
    return replace(
        question, choices=(), takes_text=False, takes_several=False, is_read=False, behind=()
    )


def take_next(question: AgentQuestion) -> AgentQuestion | None:
    """Return what is open once a question was answered: the newest one behind it."""
    return _put_first(list(question.behind))


def describe_question(question: AgentQuestion) -> str:
    """Describe a question for an alert: what is asked, and about which command, from begin to end."""
    return f"{question.title} {question.line}".strip()


def dump_question(question: AgentQuestion | None) -> dict[str, Any] | None:
    """Return a question as a column keeps it."""
    return msgspec.to_builtins(question) if question else None


def load_question(value: Any) -> AgentQuestion | None:
    """Return a question from its column."""
    return msgspec.convert(value, AgentQuestion) if value else None


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
        update_row(connection, tables.agents, agent.id, **values)
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
    half = MOST_DETAIL_CHARACTERS // 2
    return cut_middle(detail, half, half)


def _clean_label(label: str, redactor: Redactor) -> str:
    return " ".join(_show(label, redactor).split())


def _clean_line(text: str, redactor: Redactor, most: int) -> str:
    return shorten_to_line(_show(" ".join(clean_for_display(text).split()), redactor), most)


def _mark(question: AgentQuestion) -> AgentQuestion:
    words = f"{question.text}\n{question.file}\n{question.detail}\n{question.asked_at!r}"
    digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()
    return replace(question, mark=digest[:16])


_FIND_QUESTION = (
    sa.select(tables.agents.c.question)
    .where(tables.agents.c.id == sa.bindparam("agent"), tables.agents.c.state == "waiting")
    .with_for_update()
)
