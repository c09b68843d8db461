"""The seam of authors that are asked: a model, or the agent itself."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from tasuki.harness.jsonl import clip
from tasuki.model import Authorship

REPEATED = 24_000
"""Characters of an answer that its author is shown again."""


class Turn(Struct, frozen=True):
    """One message of the conversation with an author: ours, or its answer to it."""

    role: Literal["user", "assistant"]
    text: str


class Reply(Struct, frozen=True):
    """What an author answered in one turn, and what that cost. Tokens as the provider counts them."""

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    price: float | None = None
    note: str = ""
    """A sentence for the user: what asking left behind."""


class Talk:
    """One conversation: its turns as they are sent with the next question, and all replies."""

    def __init__(self, ask: Callable[[Sequence[Turn]], Reply]) -> None:
        self.ask = ask
        self.began = time.monotonic()
        self.turns: list[Turn] = []
        self.replies: list[Reply] = []

    def say(self, question: str) -> str:
        """The answer to a question. What is sent again of it is cut, and never empty: endpoints
        turn empty messages down."""
        self.turns.append(Turn("user", question))
        reply = self.ask(self.turns)
        self.replies.append(reply)
        again = clip(reply.text, REPEATED) if reply.text.strip() else "{}"
        self.turns.append(Turn("assistant", again))
        return reply.text

    def total(self) -> Reply:
        """The sums of all replies, and the last model that was named."""
        prices = [reply.price for reply in self.replies if reply.price is not None]
        return Reply(
            text="",
            model=next((reply.model for reply in reversed(self.replies) if reply.model), ""),
            input_tokens=sum(reply.input_tokens for reply in self.replies),
            output_tokens=sum(reply.output_tokens for reply in self.replies),
            price=sum(prices) if prices else None,
        )

    def authorship(self, author: str, **known: Any) -> Authorship:
        """Who wrote in it, and what it cost."""
        total = self.total()
        return Authorship(
            author=author,
            model=total.model,
            requests=len(self.replies),
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            seconds=round(time.monotonic() - self.began, 3),
            price=total.price,
            **known,
        )

    def spent(self) -> str:
        """What it cost: `2 requests, 1,234 tokens in, 56 out, $0.0012`."""
        total = self.total()
        return spending(len(self.replies), total.input_tokens, total.output_tokens, total.price)


def spending(requests: int, read: int, wrote: int, price: float | None) -> str:
    """The same from sums; no tokens where nobody counted any; `price` is in US dollars."""
    asked = "1 request" if requests == 1 else f"{requests} requests"
    counted = f", {read:,} tokens in, {wrote:,} out" if read or wrote else ""
    dollars = f", ${price:.4f}" if price is not None else ""
    return f"{asked}{counted}{dollars}"


class Asker(Protocol):
    """Somebody who can be asked for a draft.

    `shape` is the form of the answer: `structured` (one JSON object) or `markdown`.
    """

    name: str
    shape: Literal["structured", "markdown"]

    def opening(self) -> str:
        """The first question."""
        ...

    def ask(self, turns: Sequence[Turn]) -> Reply:
        """The answer to the last turn. Raises AuthorFailed, or Cancelled if it was broken off."""
        ...

    def close(self) -> None:
        """Let go of what asking needed."""
        ...

    @property
    def first_whole(self) -> int:
        """The first ref that the author has whole; older entries it knows from facts and excerpts."""
        ...
