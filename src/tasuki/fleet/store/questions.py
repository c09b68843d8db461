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

from tasuki.draft.redact.redactor import MARK, Redactor
from tasuki.draft.redact.screen import redact_screen, replace_characters
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness.dialogs import (
    digest_text,
    find_cut,
    find_excuse,
    is_subject,
    join_subject,
    strip_label,
)
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.questions import AskedQuestion, DialogSubject, ScreenQuestion
from tasuki.hidden_text import is_hidden, show_hidden
from tasuki.patterns import compile_pattern
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
SECRET = "A secret hides a part of it here: read it in its terminal."  # noqa: S105
OTHER = "Nothing proves that its dialog asks about exactly this: read it in its terminal."
UNSEEN = "Its dialog is not known here: read it in its terminal."
PARTIAL = "Its dialog may not show all that it asks about: read it in its terminal."
NO_KEYS = "Its choices are taken in its terminal."

_BEFORE_WORDS = "<>|&;(`\n"
"""What stands before a command or a file that is written, as does nothing."""
_INERT = compile_pattern(r"[\w.~+/=:%@,-]*")
"""What a secret may hold in a command without hiding that something is run."""


def build_question(event: AgentEvent, asked_at: float) -> AgentQuestion:
    """Build the question that a `waiting` event reports."""
    asked = event.question or AskedQuestion(event.text or UNKNOWN, kind="free")
    redactor = Redactor()
    is_command = asked.subject is not None and asked.subject.kind == "command"
    detail, secrets = _show_detail(asked.detail, is_command)
    if asked.more:
        detail += f"\n\u27e8with\u27e9 {show_hidden(redactor.redact(asked.more))}"
    file = "\u27e8U+000A\u27e9".join(map(show_hidden, redactor.redact(asked.file).split("\n")))
    if max(len(asked.detail) // 4, len(detail), 4 * len(file)) > MOST_DETAIL_CHARACTERS:
        subject, obstacle = None, TOO_LONG
    else:
        subject, obstacle = _build_subject(asked.subject, secrets)
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
        obstacle=obstacle,
        is_reported=asked.kind != "free",
        child=event.child,
        subject=subject,
    )
    return _mark(question)


def _show_detail(detail: str, is_command: bool) -> tuple[str, list[str]]:
    """Return what a question is about as it is shown, and its secrets; of very much both ends."""
    most = 2 * MOST_DETAIL_CHARACTERS
    parts = [detail] if len(detail) <= 2 * most else [detail[:most], detail[-most:]]
    redacted = [_redact_whole(part) for part in parts]
    shown = [show_hidden(part, is_command=is_command) for part, _ in redacted]
    if len(parts) > 1:
        shown = [shown[0][:most], "\u27e8the middle is left out\u27e9", shown[1][-most:]]
    return "\n".join(shown), [secret for _, secrets in redacted for secret in secrets]


def _build_subject(
    subject: DialogSubject | None, secrets: Sequence[str]
) -> tuple[DialogSubject | None, str]:
    """Build what is kept of a subject, and why no dialog can be compared with it; empty for nothing."""
    if subject is None:
        return None, ""
    texts = (subject.text, subject.before or "", subject.place, *subject.labels)
    if not (secrets or _redact_whole("\n".join(texts))[1]):
        return subject, ""
    if subject.kind not in ("command", "fields") or not all(map(_INERT.fullmatch, secrets)):
        return None, SECRET
    return replace(subject, text="", digest=digest_text(subject.text)), ""


def _redact_whole(text: str) -> tuple[str, list[str]]:
    """Return a text without its secrets, and these, also where hidden characters are in them.

    A blank stands for what a second look finds, for a mark of the text's own, and for a secret in
    the place of a command or a file that is written.
    """
    kept: Sequence[int] = range(len(text))
    if not (text.isascii() and text.isprintable()):
        kept = [n for n, letter in enumerate(text) if letter == "\n" or not is_hidden(letter)]
    hidden: dict[int, str] = {}
    secrets = [" "] if MARK.search(text) else []
    for span in Redactor().find_everywhere("".join(text[n] for n in kept)):
        first, end = kept[span.start], kept[span.end - 1] + 1
        hidden.update(dict.fromkeys(range(first, end), span.kind))
        before = text[:first].rstrip(" '\"")[-1:]
        secrets.append(" " if before in _BEFORE_WORDS else text[first:end])
    redacted = replace_characters(text, hidden)
    again = Redactor().redact(redacted)
    return again, secrets if again == redacted else [*secrets, " "]


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
    if not question.is_reported and seen.subject and MARK.search(question.detail):
        return SECRET
    if any(len(choice.label) > MOST_LABEL_CHARACTERS for choice in seen.choices):
        return TOO_LONG
    return "" if seen.choices or seen.text_keys is not None else NO_KEYS


def _build_from_screen(seen: ScreenQuestion, seen_at: float) -> AgentQuestion:
    """Build the question that a screen shows; what it is about comes first, then all around it."""
    subject = join_subject(seen.subject)
    detail = show_hidden(redact_screen(seen.detail))
    if subject:
        detail = f"{show_hidden(redact_screen(subject), is_command=True)}\n\u27e8above it\u27e9\n{detail}"
    text = redact_screen(clean_for_display(seen.text))
    question = AgentQuestion(
        text=shorten_to_line(text, MOST_TEXT_CHARACTERS) or UNKNOWN,
        mark="",
        asked_at=seen_at,
        detail=detail,
        lines=len((subject or seen.detail).split("\n")),
        characters=len(subject or seen.detail),
        kind="choice" if seen.choices else "free",
        is_review=bool(seen.answers),
    )
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
    half = MOST_DETAIL_CHARACTERS // 2
    return cut_middle(detail, half, half)


def _clean_label(label: str, redactor: Redactor) -> str:
    return " ".join(show_hidden(redactor.redact(label)).split())


def _clean_line(text: str, redactor: Redactor, most: int) -> str:
    return shorten_to_line(redactor.redact(clean_for_display(text)), most)


def _mark(question: AgentQuestion) -> AgentQuestion:
    words = f"{question.text}\n{question.file}\n{question.detail}\n{question.asked_at!r}"
    digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()
    return replace(question, mark=digest[:16])


_FIND_QUESTION = (
    sa.select(tables.agents.c.question)
    .where(tables.agents.c.id == sa.bindparam("agent"), tables.agents.c.state == "waiting")
    .with_for_update()
)
