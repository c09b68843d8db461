"""Write a draft by asking an author: question, answer, checks, one repair.

    ask → parse (one stricter retry) → check → ask for what was dropped or is missing → check

The steps are the same for every author and every shape of answer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.authors import answer, document
from tasuki.draft.authors.answer import ParsedAnswer, UnusableAnswer, build_proposal
from tasuki.draft.authors.author import Asker, AuthorDialogue, AuthorTask
from tasuki.draft.checks.checker import DraftCheck
from tasuki.draft.prompts import render_prompt
from tasuki.errors import AuthorFailed
from tasuki.model import Authorship, Draft, Dropped

RETRY_ITEMS = 30
"""Maximum number of items requested for a second answer."""
MAX_REPAIRED = 30
"""Dropped items that a repair request lists."""
SECTIONS = ("context", "asked", "decisions", "questions", "files", "commands")
"""Sections that an author writes, or chooses for."""
_BEYOND_REPAIR = frozenset(("repeated", "empty", "cap"))


class AuthorConversation(AuthorDialogue):
    """One conversation with an author: what it is asked, and how its answers are read."""

    def __init__(self, asker: Asker) -> None:
        super().__init__(asker.ask)
        self.asker = asker

    def request_answer(self, question: str) -> ParsedAnswer:
        """Return the parsed answer to a question. Raises Unusable, AuthorFailed or Cancelled."""
        parse = document.parse_document if self.asker.shape == "markdown" else answer.parse_answer
        return parse(self.ask_question(question))

    def request_first_answer(self) -> ParsedAnswer:
        """The first answer that can be read, after at most one retry with a stricter request.

        The retry is the seed's. Raises AuthorFailed with the reason if there is none.
        """
        try:
            return self.request_answer(self.asker.build_opening())
        except UnusableAnswer as problem:
            reason = str(problem)
        try:
            return self.request_answer(self._render_stricter(reason))
        except UnusableAnswer as problem:
            author = f"The {self.asker.name}'s answer"
            raise AuthorFailed(
                f"{author} could not be read, nor the one to a stricter request: {problem}"
            ) from problem

    def _render_stricter(self, problem: str) -> str:
        if self.asker.shape == "markdown":
            return render_prompt("stricter_markdown", problem=problem)
        return render_prompt("stricter", problem=problem, items=RETRY_ITEMS)

    def request_repair(
        self, dropped: Sequence[Dropped], missing_items: Sequence[str]
    ) -> ParsedAnswer | None:
        """Ask for a repair of a draft; return None if no answer came or it could not be read.

        Without a repair the draft stays as it is.
        """
        dropped_lines = [
            f"- {d.section}: {d.text[:300]} — {d.reason}" for d in dropped[:MAX_REPAIRED]
        ]
        name = "repair_markdown" if self.asker.shape == "markdown" else "repair"
        none = "- (none)"
        question = render_prompt(
            name, dropped="\n".join(dropped_lines) or none, missing="\n".join(missing_items) or none
        )
        try:
            return self.request_answer(question)
        except (UnusableAnswer, AuthorFailed):
            return None


class AuthoredDraft(Struct, frozen=True):
    """A checked draft in an author's words; `notes` are sentences for the user about the requests."""

    draft: Draft
    notes: list[str]


def extract_draft(talk: AuthorConversation, task: AuthorTask, check: DraftCheck) -> AuthoredDraft:
    """Return a checked draft in an author's words, from a conversation that starts here.

    Raises AuthorFailed if no answer can be had, Cancelled if the conversation was interrupted.
    """
    asker = talk.asker
    parsed = talk.request_first_answer()
    draft = replace(build_proposal(parsed, task), authorship=Authorship(author=asker.name))
    offered = Counter({section: len(getattr(draft, section)) for section in SECTIONS})
    draft = check(draft)
    mendable = [d for d in draft.dropped if d.kind not in _BEYOND_REPAIR]
    missing_items = list_missing(draft, parsed, task)
    if (mendable or missing_items) and (
        more := talk.request_repair(mendable, missing_items)
    ) is not None:
        addition = build_proposal(more, task)
        offered.update({s: len(getattr(addition, s)) for s in SECTIONS})
        draft = check(join_drafts(draft, addition))
    if not any(getattr(draft, section) for section in SECTIONS):
        raise AuthorFailed(_describe_failure(asker, draft))
    authorship = talk.build_authorship(
        asker.name,
        whole_from=asker.first_whole,
        proposed={s: n for s, n in offered.items() if n},
        dropped=dict(Counter(d.kind for d in draft.dropped)),
    )
    return AuthoredDraft(
        replace(draft, authorship=authorship, dropped=_list_dropped_once(draft.dropped)),
        notes=[r.note for r in talk.replies if r.note],
    )


def list_missing(draft: Draft, parsed: ParsedAnswer, task: AuthorTask) -> list[str]:
    """Return what an answer lacks: keys or headings, and lasting wishes of the user."""
    missing_items = [f"- {name}" for name in parsed.missing]
    texts = {
        item.text for section in (draft.asked, draft.decisions, draft.context) for item in section
    }
    for number, sentence in task.inventory.list_lasting_wishes():
        if not any(sentence.text in text for text in texts):
            missing_items.append(f'- constraints: U{number} "{task.clean(sentence.text)}"')
    return missing_items[:12]


def join_drafts(draft: Draft, addition: Draft) -> Draft:
    """Return a checked draft with a repair's items added after its own."""
    both = {s: (*getattr(draft, s), *getattr(addition, s)) for s in SECTIONS}
    return replace(draft, **both)


def _list_dropped_once(dropped: Iterable[Dropped]) -> tuple[Dropped, ...]:
    """Return what was dropped, once each, for people to read.

    What a second answer merely repeated is left out.
    """
    by_text = {(d.section, d.text): d for d in dropped if d.kind != "repeated"}
    return tuple(by_text.values())


def _describe_failure(asker: Asker, draft: Draft) -> str:
    reasons = Counter(d.reason for d in draft.dropped).most_common(3)
    why = "; ".join(f"{n}× {reason}" for reason, n in reasons) or "it was empty"
    return f"Nothing in the {asker.name}'s answer passed the checks: {why}."
