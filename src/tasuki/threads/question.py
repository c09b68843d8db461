"""A question to a thread and those before it: a model answers from passages, with references.

    passages → answer → check → later passages that may revise it → answer → check

Every sentence must cite passages that support it; what it quotes must occur in them.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tasuki.config.settings import LoadedSettings
from tasuki.draft.authors.answer import find_last_object
from tasuki.draft.authors.author import AuthorDialogue
from tasuki.draft.authors.thread_view import create_fence
from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.claims.support import is_supported_by
from tasuki.draft.models import providers
from tasuki.draft.models.client import ModelClient
from tasuki.draft.prompts import render_prompt
from tasuki.draft.text.entries import contains_claim, join_entry_text
from tasuki.errors import AuthorFailed
from tasuki.model import Entry, format_ref
from tasuki.threads.passages import EntryCleaner, Passage, find_passages
from tasuki.threads.references import OpenedThread, check_question, read_entries, walk_chain

PASSAGES = 16
"""Of each thread, in the first request."""
LATER = 8
"""Of each thread, in the second."""
NEWEST = 6
"""Last messages of a thread that are always later passages if they mention it: they hold."""
SHARE = 2
"""Characters of passages for each token of the window."""
MAX_ANSWER = 100_000
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "passages": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["text", "passages"],
                "additionalProperties": False,
            },
        },
        "unanswered": {"type": "string"},
    },
    "required": ["answer", "unanswered"],
    "additionalProperties": False,
}


class GivenPassage(Struct, frozen=True):
    """A passage that the model was given: its number there is its place in the list."""

    source: OpenedThread
    passage: Passage
    entry: Entry

    @property
    def reference(self) -> str:
        """The reference with which `tasuki read` opens the entry."""
        return f"{self.source.label}{format_ref(self.passage.ref)}"


class LineageThread(Struct, frozen=True):
    """One thread of a lineage with its entries."""

    source: OpenedThread
    entries: Sequence[Entry]

    def select_passages(
        self,
        subject: str,
        cleaner: EntryCleaner,
        limit: int,
        entries: Sequence[Entry] | None = None,
    ) -> list[GivenPassage]:
        """Select the passages of entries that say most about a subject, in the order of the thread."""
        chosen = self.entries if entries is None else entries
        by_ref = {entry.ref: entry for entry in chosen}
        passages = find_passages(chosen, subject, cleaner, limit, of=self.source.entries)
        return [GivenPassage(self.source, p, cleaner.clean_entry(by_ref[p.ref])) for p in passages]


class AnswerSentence(Struct, frozen=True):
    """One sentence of an answer and the references that support it."""

    text: str
    references: tuple[str, ...]


class CheckedAnswer(Struct, frozen=True):
    """An answer, as far as it passed the checks.

    `dropped` are sentences that did not, with reasons; `told` says who answered and what it
    cost.
    """

    sentences: tuple[AnswerSentence, ...]
    unanswered: str = ""
    dropped: tuple[tuple[str, str], ...] = ()
    told: tuple[str, ...] = ()


def answer_question(
    source: OpenedThread, question: str, cleaner: EntryCleaner, loaded: LoadedSettings
) -> CheckedAnswer:
    """Return the answer of a model to a question.

    Raises UsageError for an empty question, ModelUnavailable without a model, AuthorFailed if
    it gives no answer that passes the checks.
    """
    check_question(question)
    links = [
        LineageThread(link, [r.entry for r in read_entries(link)]) for link in walk_chain(source)
    ]
    passages = [
        g for link in reversed(links) for g in link.select_passages(question, cleaner, PASSAGES)
    ]
    if not passages:
        raise AuthorFailed(f"No passage of {source.label} contains a word of the question.")
    thread = source.thread
    endpoint = providers.resolve_endpoint(loaded, thread.model if thread else "")
    client = ModelClient(endpoint, loaded.settings.author_seconds)
    try:
        return _QuestionSession(client, links, passages, cleaner).answer(question)
    finally:
        client.close()


class _QuestionSession:
    """One question in progress."""

    def __init__(
        self,
        client: ModelClient,
        links: Sequence[LineageThread],
        passages: list[GivenPassage],
        cleaner: EntryCleaner,
    ) -> None:
        self.links = links
        self.passages = passages
        self.cleaner = cleaner
        system = render_prompt("question_system")
        self.talk = AuthorDialogue(lambda turns: client.ask(system, turns, SCHEMA))
        self.room = client.endpoint.window * SHARE

    def answer(self, question: str) -> CheckedAnswer:
        """Return the answer; ask again where later entries mention the same things."""
        text, name = self._format_passages(self.passages, 1)
        first = self._ask(render_prompt("question", question=question, passages=text, fence=name))
        sentences, dropped = self._check_answer(first)
        later = self._find_later(f"{question}\n{' '.join(s.text for s in sentences)}", first)
        if later or dropped:
            start = len(self.passages) + 1
            self.passages += later
            text, name = self._format_passages(later, start)
            listed = "\n".join(f"- {text} — {why}" for text, why in dropped)
            listed = render_prompt("question_dropped", dropped=listed) if listed else ""
            prompt = render_prompt("question_later", passages=text, fence=name, dropped=listed)
            first = self._ask(prompt)
            sentences, dropped = self._check_answer(first)
        unanswered = first.get("unanswered")
        unanswered = unanswered.strip() if isinstance(unanswered, str) else ""
        if not sentences and not unanswered:
            reasons = "; ".join(why for _, why in dropped[:2]) or "it was empty"
            raise AuthorFailed(f"Nothing of the model's answer passed the checks: {reasons}.")
        model = f"Answered by {self.talk.sum_replies().model}: {self.talk.describe_cost()}."
        return CheckedAnswer(tuple(sentences), unanswered, tuple(dropped), (model,))

    def _ask(self, prompt: str) -> dict[str, Any]:
        """Return the object that answers a prompt; ask once more if there is none."""
        problem = "it holds no JSON object with the key answer."
        for text in (prompt, render_prompt("question_again", problem=problem)):
            reply = self.talk.ask_question(text)[:MAX_ANSWER]
            answer_object, _ = find_last_object(reply, ("answer",))
            if answer_object is not None:
                return answer_object
        raise AuthorFailed(f"The model's answer could not be read: {problem}")

    def _format_passages(self, passages: Sequence[GivenPassage], start: int) -> tuple[str, str]:
        """Format numbered passages, as many as there is room for; return them and a fence name."""
        lines: list[str] = []
        room = self.room
        for number, one in enumerate(passages, start):
            passage = one.passage
            line = f"[P{number}] {one.reference} {passage.kind} {passage.at}\n{passage.text}"
            room -= len(line)
            if room < 0 and lines:
                break
            lines.append(line)
        text = "\n\n".join(lines) or "(none)"
        return text, create_fence(text)

    def _check_answer(
        self, answer_object: dict[str, Any]
    ) -> tuple[list[AnswerSentence], list[tuple[str, str]]]:
        sentences: list[AnswerSentence] = []
        dropped: list[tuple[str, str]] = []
        items = answer_object.get("answer")
        for item in items[:60] if isinstance(items, list) else ():
            text = item.get("text") if isinstance(item, dict) else None
            if not isinstance(text, str) or not text.strip():
                continue
            text = " ".join(text.split())
            cited = self._find_cited(item.get("passages"))
            if why := _explain_rejection(text, cited):
                dropped.append((text, why))
            else:
                sentences.append(
                    AnswerSentence(text, tuple(dict.fromkeys(c.reference for c in cited)))
                )
        return sentences, dropped

    def _find_cited(self, numbers: object) -> list[GivenPassage]:
        named = re.findall(r"\d{1,6}", json.dumps(numbers)) if numbers is not None else []
        return [self.passages[n - 1] for n in map(int, named) if 0 < n <= len(self.passages)]

    def _find_later(self, subject: str, answer_object: dict[str, Any]) -> list[GivenPassage]:
        """Find passages after the earliest cited one that are not given yet, oldest first."""
        items = answer_object.get("answer")
        found = (
            [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        )
        cited = [c for item in found for c in self._find_cited(item.get("passages"))]
        references = {one.reference for one in self.passages}
        oldest = {
            c.source.label: min(x.passage.ref for x in cited if x.source is c.source) for c in cited
        }
        later: list[GivenPassage] = []
        for link in self.links:
            label = link.source.label
            after = oldest.get(label, 0)
            new = [
                e for e in link.entries if e.ref > after and f"{label}#{e.ref}" not in references
            ]
            newest = [e for e in new if e.kind != "tool"][-NEWEST:]
            best = link.select_passages(subject, self.cleaner, LATER, new)
            last = [g for e in newest for g in link.select_passages(subject, self.cleaner, 1, [e])]
            both = {g.passage.ref: g for g in (*best, *last)}
            later[:0] = [both[ref] for ref in sorted(both)]
            if label in oldest:
                break
        return later


def _explain_rejection(text: str, cited: Sequence[GivenPassage]) -> str:
    """Explain why a sentence is rejected; empty if what it cites supports it."""
    if not cited:
        return "it cites no passage"
    hay = "\n".join(f"{c.passage.text}\n{join_entry_text(c.entry)}" for c in cited)
    for claim in extract_claims(text):
        if not contains_claim(claim.text, hay):
            return f"`{claim.text}` does not stand in what it cites"
    return "" if is_supported_by(text, hay) else "what it cites does not speak of this"
