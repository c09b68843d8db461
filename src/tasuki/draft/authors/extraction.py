"""Write a draft by asking an author: question, answer, checks, one repair.

    ask → parse (one stricter retry) → check → ask anew for what was dropped → check

The steps are the same for every author and every shape of answer.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.authors import answer, document
from tasuki.draft.authors.answer import ParsedAnswer, UnusableAnswer, build_proposal
from tasuki.draft.authors.author import Asker, AuthorDialogue, AuthorTask
from tasuki.draft.authors.thread_view import create_fence
from tasuki.draft.brief import format_refs
from tasuki.draft.claims.checker import DraftCheck
from tasuki.draft.prompts import render_prompt
from tasuki.draft.text.entries import format_entry
from tasuki.errors import AuthorFailed
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Authorship, Draft, Dropped
from tasuki.text_safety import clean_text

RETRY_ITEMS = 30
"""Maximum number of items requested for a second answer."""
MAX_CITED, CITED_CHARACTERS = 4, 2_000
"""Entries that a repair shows of one item, and characters of each."""
MAX_REPAIRED = 30
"""Dropped items that a repair request lists."""
SECTIONS = ("context", "asked", "state", "decisions", "questions", "files", "commands")
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
            if self.asker.shape == "markdown":
                return self.request_answer(render_prompt("stricter_markdown", problem=reason))
            stricter = render_prompt("stricter", problem=reason, items=RETRY_ITEMS)
            return self.request_answer(stricter)
        except UnusableAnswer as problem:
            words = f"could not be read, nor the one to a stricter request: {problem}"
            raise AuthorFailed(f"The {self.asker.name}'s answer {words}") from problem

    def request_repair(self, dropped: Sequence[Dropped], task: AuthorTask) -> ParsedAnswer | None:
        """Ask to put dropped items right, from the entries that they cite; None if that failed.

        The thread is not sent again. Without a repair the draft stays as it is.
        """
        is_markdown = self.asker.shape == "markdown"
        listed = "\n\n".join(_describe_dropped(d, task) for d in dropped[:MAX_REPAIRED])
        form = {} if is_markdown else {"form": render_prompt("form", **task.get_prompt_limits())}
        question = render_prompt(
            "repair_markdown" if is_markdown else "repair",
            goal=task.clean(task.goal.text), dropped=listed, fence=create_fence(listed), **form,
        )  # fmt: skip
        parse = document.parse_document if is_markdown else answer.parse_answer
        try:
            return parse(self.ask_alone(question))
        except (UnusableAnswer, AuthorFailed):
            return None


def _describe_dropped(dropped: Dropped, task: AuthorTask) -> str:
    """Return a dropped item with the reason and the entries that it cites, as a repair shows them."""
    wanted = set(dropped.refs[:MAX_CITED])
    cited = (e for e in task.thread.entries if e.ref in wanted)
    shown = [f"[#{e.ref} {e.kind}] {clip(format_entry(e), CITED_CHARACTERS)}" for e in cited]
    head = (
        f"- {dropped.section}: {dropped.text[:300]}{format_refs(dropped.refs)} — {dropped.reason}"
    )
    return task.clean(clean_text("\n".join((head, *shown))))


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
    if mendable and (more := talk.request_repair(mendable, task)) is not None:
        addition = build_proposal(more, task)
        offered.update({s: len(getattr(addition, s)) for s in SECTIONS})
        draft = check(join_drafts(draft, addition))
    if not any(getattr(draft, section) for section in SECTIONS):
        reasons = Counter(d.reason for d in draft.dropped).most_common(3)
        why = "; ".join(f"{n}× {reason}" for reason, n in reasons) or "it was empty"
        raise AuthorFailed(f"Nothing in the {asker.name}'s answer passed the checks: {why}.")
    authorship = talk.build_authorship(
        asker.name,
        whole_from=asker.first_whole,
        proposed={s: n for s, n in offered.items() if n},
        dropped=dict(Counter(d.kind for d in draft.dropped)),
    )
    # For people to read, each once; what a second answer merely repeated is left out.
    dropped = {(d.section, d.text): d for d in draft.dropped if d.kind != "repeated"}
    draft = replace(draft, authorship=authorship, dropped=tuple(dropped.values()))
    return AuthoredDraft(draft, notes=[r.note for r in talk.replies if r.note])


def join_drafts(draft: Draft, addition: Draft) -> Draft:
    """Return a checked draft with a repair's items added after its own."""
    return replace(draft, **{s: (*getattr(draft, s), *getattr(addition, s)) for s in SECTIONS})
