"""A question to a thread and those before it, answered by a model from passages, with references.

    passages → answer → check → later passages that may revise it → answer → check

Every sentence must cite passages that bear it; what it says to the letter must stand in them.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tasuki.config import Loaded
from tasuki.draft.authors import providers
from tasuki.draft.authors.answer import last_object
from tasuki.draft.authors.asker import Talk
from tasuki.draft.authors.client import Client
from tasuki.draft.authors.view import fence
from tasuki.draft.claims import claims
from tasuki.draft.entries import entry_text
from tasuki.draft.occurrence import stands_in
from tasuki.draft.prompts import render
from tasuki.draft.support import bears
from tasuki.errors import AuthorFailed
from tasuki.model import Entry
from tasuki.threads.opening import Opened, chain, check_question, readings
from tasuki.threads.passages import Clean, Passage, answers

PASSAGES = 16
"""Of each thread, in the first request."""
LATER = 8
"""Of each thread, in the second."""
NEWEST = 6
"""Last messages of a thread that are always among the later passages if they speak of it: they hold."""
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


class Given(Struct, frozen=True):
    """A passage that was put before the model: its number there is its place in the list."""

    of: Opened
    passage: Passage
    entry: Entry

    @property
    def reference(self) -> str:
        """How `tasuki read` opens the entry."""
        return f"{self.of.label}#{self.passage.ref}"


class Link(Struct, frozen=True):
    """One thread of a lineage with entries of it."""

    of: Opened
    entries: Sequence[Entry]

    def given(self, about: str, clean: Clean, limit: int) -> list[Given]:
        """The passages that say most about something, in the order of the thread."""
        by_ref = {entry.ref: entry for entry in self.entries}
        found = answers(self.entries, about, clean, limit)
        return [Given(self.of, p, clean(by_ref[p.ref])) for p in found]


class Sentence(Struct, frozen=True):
    """One sentence of an answer and what it rests on."""

    text: str
    references: tuple[str, ...]


class Answered(Struct, frozen=True):
    """An answer as far as it stood up to the checks.

    `dropped` are sentences that did not, with reasons; `told` says who answered and what it cost.
    """

    sentences: tuple[Sentence, ...]
    unanswered: str = ""
    dropped: tuple[tuple[str, str], ...] = ()
    told: tuple[str, ...] = ()


def answered(of: Opened, question: str, clean: Clean, loaded: Loaded) -> Answered:
    """The answer of a model to a question.

    Raises UsageError for an empty question, ModelUnavailable without a model, AuthorFailed if it
    gives no answer that stands up to the checks.
    """
    check_question(question)
    links = [Link(link, [r.entry for r in readings(link)]) for link in chain(of)]
    given = [g for link in reversed(links) for g in link.given(question, clean, PASSAGES)]
    if not given:
        raise AuthorFailed(f"No passage of {of.label} has a word of the question.")
    thread = of.thread
    endpoint = providers.resolve(
        loaded, thread.model if thread else "", thread.harness if thread else ""
    )
    client = Client(endpoint, loaded.settings.author_seconds)
    try:
        return _Asking(client, links, given, clean).answer(question)
    finally:
        client.close()


class _Asking:
    """One question under way."""

    def __init__(
        self, client: Client, links: Sequence[Link], given: list[Given], clean: Clean
    ) -> None:
        self.links = links
        self.given = given
        self.clean = clean
        system = render("question_system")
        self.talk = Talk(lambda turns: client.ask(system, turns, SCHEMA))
        self.room = client.endpoint.window * SHARE

    def answer(self, question: str) -> Answered:
        """The answer, asked for again where later entries speak of the same things."""
        text, name = self._listed(self.given, 1)
        first = self._ask(render("question", question=question, passages=text, fence=name))
        sentences, dropped = self._checked(first)
        later = self._later(f"{question}\n{' '.join(s.text for s in sentences)}", first)
        if later or dropped:
            start = len(self.given) + 1
            self.given += later
            text, name = self._listed(later, start)
            thrown = "\n".join(f"- {text} — {why}" for text, why in dropped)
            told = render("question_dropped", dropped=thrown) if thrown else ""
            second = self._ask(render("question_later", passages=text, fence=name, dropped=told))
            sentences, dropped = self._checked(second)
            first = second
        unanswered = first.get("unanswered")
        unanswered = unanswered.strip() if isinstance(unanswered, str) else ""
        if not sentences and not unanswered:
            why = "; ".join(why for _, why in dropped[:2]) or "it was empty"
            raise AuthorFailed(f"Nothing of the model's answer stood up to the checks: {why}.")
        return Answered(tuple(sentences), unanswered, tuple(dropped), (self._told(),))

    def _ask(self, prompt: str) -> dict[str, Any]:
        """The object that a prompt is answered with; asked for once more if there is none."""
        problem = ""
        for text in (prompt, None):
            question = text or render("question_again", problem=problem)
            found, _ = last_object(self.talk.say(question)[:MAX_ANSWER], ("answer",))
            if found is not None:
                return found
            problem = "it holds no JSON object with the key answer."
        raise AuthorFailed(f"The model's answer could not be read: {problem}")

    def _told(self) -> str:
        return f"Answered by {self.talk.total().model}: {self.talk.spent()}."

    def _listed(self, given: Sequence[Given], start: int) -> tuple[str, str]:
        """Passages with their numbers, as much as there is room for, and the name of a fence."""
        lines: list[str] = []
        room = self.room
        for number, one in enumerate(given, start):
            passage = one.passage
            line = f"[P{number}] {one.reference} {passage.kind} {passage.at}\n{passage.text}"
            room -= len(line)
            if room < 0 and lines:
                break
            lines.append(line)
        text = "\n\n".join(lines) or "(none)"
        return text, fence(text)

    def _checked(self, found: dict[str, Any]) -> tuple[list[Sentence], list[tuple[str, str]]]:
        kept: list[Sentence] = []
        dropped: list[tuple[str, str]] = []
        items = found.get("answer")
        for item in items[:60] if isinstance(items, list) else ():
            text = item.get("text") if isinstance(item, dict) else None
            if not isinstance(text, str) or not text.strip():
                continue
            text = " ".join(text.split())
            cited = self._cited(item.get("passages"))
            if why := _why_not(text, cited):
                dropped.append((text, why))
            else:
                kept.append(Sentence(text, tuple(dict.fromkeys(c.reference for c in cited))))
        return kept, dropped

    def _cited(self, numbers: object) -> list[Given]:
        named = re.findall(r"\d{1,6}", json.dumps(numbers)) if numbers is not None else []
        return [self.given[n - 1] for n in map(int, named) if 0 < n <= len(self.given)]

    def _later(self, about: str, found: dict[str, Any]) -> list[Given]:
        """Passages behind the earliest one that was cited, not given yet, the oldest first."""
        items = found.get("answer")
        cited = [
            c
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict)
            for c in self._cited(item.get("passages"))
        ]
        known = {one.reference for one in self.given}
        oldest = {c.of.label: min(x.passage.ref for x in cited if x.of is c.of) for c in cited}
        later: list[Given] = []
        for link in self.links:
            label = link.of.label
            after = oldest.get(label, 0)
            new = [e for e in link.entries if e.ref > after and f"{label}#{e.ref}" not in known]
            newest = [e for e in new if e.kind != "tool"][-NEWEST:]
            best = Link(link.of, new).given(about, self.clean, LATER)
            last = [g for e in newest for g in Link(link.of, [e]).given(about, self.clean, 1)]
            both = {g.passage.ref: g for g in (*best, *last)}
            later[:0] = [both[ref] for ref in sorted(both)]
            if label in oldest:
                break
        return later


def _why_not(text: str, cited: Sequence[Given]) -> str:
    """Why a sentence cannot stand; empty if what it cites bears it."""
    if not cited:
        return "it cites no passage"
    hay = "\n".join(f"{c.passage.text}\n{entry_text(c.entry)}" for c in cited)
    for claim in claims(text):
        if not stands_in(claim.text, hay):
            return f"`{claim.text}` does not stand in what it cites"
    return "" if bears(text, hay) else "what it cites does not speak of this"
