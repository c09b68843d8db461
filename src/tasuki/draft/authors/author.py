"""What an author receives: the task with its thread, facts and limits; and the seam of authors that are asked."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

from msgspec import Struct

from tasuki.draft.authors.inventory import FactInventory, build_inventory
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.facts.statements import Statement, find_done_at_once, find_superseded
from tasuki.draft.rank.relevance import build_relevance
from tasuki.draft.redact.redactor import Redactor
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Authorship, Goal, Thread
from tasuki.text_safety import remove_invisible

MAX_REPEATED = 24_000
"""Characters of an answer that are repeated to its author."""


class AuthorTurn(Struct, frozen=True):
    """One message of the conversation with an author: our question, or its answer."""

    role: Literal["user", "assistant"]
    text: str


class AuthorReply(Struct, frozen=True):
    """What an author answered in one turn, and its cost. Tokens as the provider counts them."""

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    price: float | None = None
    note: str = ""
    """A sentence for the user: what asking left behind."""


class AuthorDialogue:
    """One conversation: its turns as they are sent with the next question, and all replies."""

    def __init__(self, ask: Callable[[Sequence[AuthorTurn]], AuthorReply]) -> None:
        self.ask = ask
        self.started = time.monotonic()
        self.turns: list[AuthorTurn] = []
        self.replies: list[AuthorReply] = []

    def ask_question(self, question: str) -> str:
        """Ask a question and return the answer.

        The copy that later questions repeat is cut, and never empty: endpoints reject empty
        messages.
        """
        self.turns.append(AuthorTurn("user", question))
        reply = self.ask(self.turns)
        self.replies.append(reply)
        again = clip(reply.text, MAX_REPEATED) if reply.text.strip() else "{}"
        self.turns.append(AuthorTurn("assistant", again))
        return reply.text

    def sum_replies(self) -> AuthorReply:
        """Return the sums of all replies, and the last model that was named."""
        prices = [reply.price for reply in self.replies if reply.price is not None]
        return AuthorReply(
            text="",
            model=next((reply.model for reply in reversed(self.replies) if reply.model), ""),
            input_tokens=sum(reply.input_tokens for reply in self.replies),
            output_tokens=sum(reply.output_tokens for reply in self.replies),
            price=sum(prices) if prices else None,
        )

    def build_authorship(self, author: str, **fields: Any) -> Authorship:
        """Return who wrote in the conversation, and its cost."""
        total = self.sum_replies()
        return Authorship(
            author=author,
            model=total.model,
            requests=len(self.replies),
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            seconds=round(time.monotonic() - self.started, 3),
            price=total.price,
            **fields,
        )

    def describe_cost(self) -> str:
        """Return the cost: `2 requests, 1,234 tokens in, 56 out, $0.0012`."""
        total = self.sum_replies()
        return format_cost(len(self.replies), total.input_tokens, total.output_tokens, total.price)


def format_cost(requests: int, read: int, wrote: int, price: float | None) -> str:
    """Return the same from sums, without tokens if none were counted; `price` is in US dollars."""
    request_count = "1 request" if requests == 1 else f"{requests} requests"
    counted = f", {read:,} tokens in, {wrote:,} out" if read or wrote else ""
    dollars = f", ${price:.4f}" if price is not None else ""
    return f"{request_count}{counted}{dollars}"


class Asker(Protocol):
    """An author that can be asked for a draft.

    `shape` is the form of the answer: `structured` (one JSON object) or `markdown`.
    """

    name: str
    shape: Literal["structured", "markdown"]

    def build_opening(self) -> str:
        """Return the first question."""
        ...

    def ask(self, turns: Sequence[AuthorTurn]) -> AuthorReply:
        """Return the answer to the last turn. Raises AuthorFailed, or Cancelled if interrupted."""
        ...

    def close(self) -> None:
        """Release what asking needed."""
        ...

    @property
    def first_whole(self) -> int:
        """The first ref that the author has whole; older entries it has as facts and excerpts."""
        ...


class AuthorTask:
    """One draft to be written. `limits` are the caps of its sections."""

    def __init__(
        self, thread: Thread, derived: DerivedFacts, goal: Goal, limits: dict[str, int]
    ) -> None:
        self.thread = thread
        self.derived = derived
        self.goal = goal
        self.limits = limits
        self.relevance = build_relevance(thread, derived, goal)
        redactor = Redactor()
        self.clean: Callable[[str], str] = lambda text: redactor.redact(remove_invisible(text))
        """Takes secrets, and what nobody sees, out of what leaves this machine."""

    @cached_property
    def open_statements(self) -> list[Statement]:
        """What was said, not taken back later, and not done at once."""
        statements = self.derived.statements
        gone, done = find_superseded(statements), find_done_at_once(statements, self.thread.entries)
        return [s for i, s in enumerate(statements) if i not in gone and s not in done]

    @cached_property
    def inventory(self) -> FactInventory:
        """The facts that an author who is asked chooses from."""
        return build_inventory(
            self.thread, self.derived.facts, self.open_statements, self.relevance
        )

    def get_prompt_limits(self) -> dict[str, int]:
        """Return the caps of the sections, by their names in prompts."""
        limits = self.limits
        return {
            "max_files": limits["files"],
            "max_commands": limits["commands"],
            "max_information": limits["context"],
            "max_decisions": limits["decisions"],
            "max_questions": limits["questions"],
        }
