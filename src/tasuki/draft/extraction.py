"""A draft from somebody who is asked: question, answer, checks, one repair.

    ask → parse (one stricter retry) → check → ask for what was dropped or is missing → check

Whoever is asked, and in whatever shape the answer comes, the same happens to it here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.authors import answer, document
from tasuki.draft.authors.answer import Parsed, Unusable
from tasuki.draft.authors.asker import Asker, Talk
from tasuki.draft.authors.proposal import proposed
from tasuki.draft.authors.task import Task
from tasuki.draft.checks import Check
from tasuki.draft.prompts import render
from tasuki.errors import AuthorFailed
from tasuki.model import Authorship, Draft, Dropped

FEWER = 30
"""Items that a second answer is asked to keep to."""
TOLD = 30
"""Dropped items that a repair is shown."""
SECTIONS = ("context", "asked", "decisions", "questions", "files", "commands")
"""Sections that an author writes, or chooses for."""
_BEYOND_REPAIR = frozenset(("repeated", "empty", "cap"))


class Conversation(Talk):
    """One conversation with an author: what it is asked, and how its answers are read."""

    def __init__(self, asker: Asker) -> None:
        super().__init__(asker.ask)
        self.asker = asker

    def parsed(self, question: str) -> Parsed:
        """The answer to a question. Raises Unusable, AuthorFailed or Cancelled."""
        parse = document.parse if self.asker.shape == "markdown" else answer.parse
        return parse(self.say(question))

    def first(self) -> Parsed:
        """The first answer that can be read: the seed's one retry with a stricter request.

        Raises AuthorFailed with the reason if there is none.
        """
        try:
            return self.parsed(self.asker.opening())
        except Unusable as problem:
            why = str(problem)
        try:
            return self.parsed(self._stricter(why))
        except Unusable as problem:
            who = f"The {self.asker.name}'s answer"
            raise AuthorFailed(
                f"{who} could not be read, nor the one to a stricter request: {problem}"
            ) from problem

    def _stricter(self, why: str) -> str:
        if self.asker.shape == "markdown":
            return render("stricter_markdown", problem=why)
        return render("stricter", problem=why, items=FEWER)

    def repair(self, dropped: Sequence[Dropped], lacking: Sequence[str]) -> Parsed | None:
        """What mends a draft; None if no answer came or it could not be read: the draft stands."""
        told = [_told(d) for d in dropped[:TOLD]]
        name = "repair_markdown" if self.asker.shape == "markdown" else "repair"
        none = "- (none)"
        question = render(name, dropped="\n".join(told) or none, missing="\n".join(lacking) or none)
        try:
            return self.parsed(question)
        except (Unusable, AuthorFailed):
            return None


class Written(Struct, frozen=True):
    """A checked draft in an author's words; `notes` are sentences for the user about asking."""

    draft: Draft
    notes: list[str]


def write(talk: Conversation, task: Task, check: Check) -> Written:
    """A checked draft in an author's words, from a conversation that begins here.

    Raises AuthorFailed if no answer can be had, Cancelled if somebody broke it off.
    """
    asker = talk.asker
    parsed = talk.first()
    draft = _signed(proposed(parsed, task), asker.name)
    offered = Counter({section: len(getattr(draft, section)) for section in SECTIONS})
    draft = check(draft)
    mendable = [d for d in draft.dropped if d.kind not in _BEYOND_REPAIR]
    lacking = missing(draft, parsed, task)
    if (mendable or lacking) and (more := talk.repair(mendable, lacking)) is not None:
        addition = proposed(more, task)
        offered.update({s: len(getattr(addition, s)) for s in SECTIONS})
        draft = check(joined(draft, addition))
    if not any(getattr(draft, section) for section in SECTIONS):
        raise AuthorFailed(_nothing_left(asker, draft))
    authorship = talk.authorship(
        asker.name,
        whole_from=asker.first_whole,
        proposed={s: n for s, n in offered.items() if n},
        dropped=dict(Counter(d.kind for d in draft.dropped)),
    )
    return Written(
        replace(draft, authorship=authorship, dropped=_once_each(draft.dropped)),
        notes=[r.note for r in talk.replies if r.note],
    )


def missing(draft: Draft, parsed: Parsed, task: Task) -> list[str]:
    """What an answer lacks: keys or headings, and standing wishes of the user."""
    lacking = [f"- {name}" for name in parsed.missing]
    said = {
        item.text for section in (draft.asked, draft.decisions, draft.context) for item in section
    }
    for number, sentence in task.inventory.standing():
        if not any(sentence.text in text for text in said):
            lacking.append(f'- constraints: U{number} "{task.clean(sentence.text)}"')
    return lacking[:12]


def _signed(draft: Draft, name: str) -> Draft:
    return replace(draft, authorship=Authorship(author=name))


def joined(draft: Draft, addition: Draft) -> Draft:
    """A checked draft with what a repair adds behind it."""
    both = {s: (*getattr(draft, s), *getattr(addition, s)) for s in SECTIONS}
    return replace(draft, **both)


def _once_each(dropped: Iterable[Dropped]) -> tuple[Dropped, ...]:
    """What was dropped, for people: once, and without what a second answer merely said again."""
    told = {(d.section, d.text): d for d in dropped if d.kind != "repeated"}
    return tuple(told.values())


def _told(dropped: Dropped) -> str:
    return f"- {dropped.section}: {dropped.text[:300]} — {dropped.reason}"


def _nothing_left(asker: Asker, draft: Draft) -> str:
    reasons = Counter(d.reason for d in draft.dropped).most_common(3)
    why = "; ".join(f"{n}× {reason}" for reason, n in reasons) or "it was empty"
    return f"Nothing of the {asker.name}'s answer stood up to the checks: {why}."
