"""What an author receives: its task, with the thread, facts and limits; and the seam of authors.

The facts are a numbered list that an author chooses from: a path, a command or a user's
sentence chosen by number cannot be invented.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from tasuki.config.defaults import DEFAULT_BUDGET
from tasuki.draft.brief import format_refs
from tasuki.draft.facts import state
from tasuki.draft.facts.commands import is_runnable, normalize_command, shorten_command
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.relevance import Relevance, select_best
from tasuki.draft.redact.answers import find_given_secrets
from tasuki.draft.redact.quotes import QuoteRedactor
from tasuki.draft.redact.redactor import Redactor
from tasuki.draft.text.split import fold_whitespace
from tasuki.harness.reading.jsonl import clip
from tasuki.model import Authorship, CommandFact, Facts, FileFact, Goal, Item, Thread
from tasuki.patterns import compile_pattern
from tasuki.text_safety import remove_invisible

MAX_FILES = 40
MAX_COMMANDS = 24
MAX_SENTENCES = 30
MAX_CHARACTERS = 16_000
"""Characters of the whole list; for a small window the caller passes less."""
LASTING_WEIGHT = 0.9
"""Weight from which a sentence of the user is a wish or ruling that must not be lost."""
AUTHORED_SHARE = 0.7
"""The maximum share of a brief's room for what an author wrote."""
_NUMBER = compile_pattern(r"\s*#?([FCUS])[\s#-]?(\d{1,3})(?![\w/]|[.-]\w)", re.IGNORECASE)
_LIKE_A_NUMBER = compile_pattern(r"(?<![\w`/.-])[FCU]\d{1,3}(?![\w/]|[.-]\w)")
_T = TypeVar("_T")


class FactInventory(Struct, frozen=True):
    """The facts to choose from, best first: `F1` is `files[0]`."""

    files: tuple[FileFact, ...]
    commands: tuple[CommandFact, ...]
    user: tuple[Statement, ...]
    state: tuple[Item, ...]
    spoken: frozenset[str] = frozenset()
    """What the thread itself says that looks like a number of the list: `F1` as in F1 score."""

    def find_file(self, name: str) -> FileFact | None:
        """Return the file that a number, its path, or the end of one path means."""
        path = name.strip("` ")
        by_path = next((f for f in self.files if f.path == path), None)
        ends = [f for f in self.files if path and f.path.endswith(f"/{path}")]
        by_number = by_path or _find_numbered("F", name, self.files)
        return by_number or (ends[0] if len(ends) == 1 else None)

    def find_command(self, name: str) -> CommandFact | None:
        """Return the command that a number or its exact words mean."""
        words = fold_whitespace(name.strip("` "))
        exact = next((c for c in self.commands if fold_whitespace(c.command) == words), None)
        return exact or _find_numbered("C", name, self.commands)

    def find_sentence(self, name: str) -> Statement | None:
        """Return the user's sentence that a number means, if the number is alone."""
        return _find_numbered("U", name, self.user)

    def list_lasting_wishes(self) -> list[tuple[int, Statement]]:
        """Return wishes and rulings of the user that must not be lost, with numbers."""
        return [
            (number, s)
            for number, s in enumerate(self.user, 1)
            if s.kind in ("constraint", "reversal") and s.weight >= LASTING_WEIGHT
        ]

    def find_state(self, name: str) -> Item | None:
        """Return the line of the derived state that a number means."""
        return _find_numbered("S", name, self.state)

    def render_list(self, clean: Callable[[str], str], characters: int = MAX_CHARACTERS) -> str:
        """Return the list for a request; what does not fit is left out at the end of each part."""
        said = (f'"{s.text}"{format_refs((s.ref,))}' for s in self.user)
        state = (
            f"{i.label}: {i.text}{format_refs(i.refs)}" if i.label else i.text for i in self.state
        )
        parts = (
            ("What the user said (U)", said, 0.35),
            ("Files (F)", map(_format_file, self.files), 0.3),
            ("Commands (C)", map(_format_command, self.commands), 0.2),
            ("State, as derived (S)", state, 0.15),
        )
        blocks = []
        for title, lines, share in parts:
            numbered = [f"{title[-2]}{n} {line}" for n, line in enumerate(lines, 1)]
            ends = accumulate(len(line) + 1 for line in numbered)
            fitting = [
                line
                for line, end in zip(numbered, ends, strict=True)
                if end <= int(characters * share)
            ]
            if fitting:
                blocks.append(f"### {title}\n" + "\n".join(fitting))
        return clean("\n\n".join(blocks)) or "(none)"


def build_inventory(
    thread: Thread, facts: Facts, stated: Sequence[Statement], relevance: Relevance
) -> FactInventory:
    """Return the facts worth choosing from, ranked for a goal. Files that are only mentioned in words come last."""
    known = relevance.files
    files = sorted((f for _, f in known.rank_files()), key=known.is_only_mentioned)
    shapes: dict[str, CommandFact] = {}
    for command in sorted(facts.commands, key=lambda c: -relevance.score_command(c)):
        if is_runnable(command.command) or command.check:
            shapes.setdefault(normalize_command(command.command), command)
    own = [s for s in stated if s.by_user and s.weight > -0.5 and len(s.text) > 6]
    chosen = select_best(((relevance.score_statement(s), s) for s in own), MAX_SENTENCES)
    return FactInventory(
        files=tuple(files[:MAX_FILES]),
        commands=tuple(list(shapes.values())[:MAX_COMMANDS]),
        user=tuple(sorted(chosen, key=lambda s: s.ref)),
        state=(
            *state.list_state_items(thread, facts),
            *list(state.list_lessons(facts, relevance.score_lesson))[:4],
        ),
        spoken=frozenset(
            number
            for entry in thread.entries
            if entry.kind in ("user", "assistant")
            for number in _LIKE_A_NUMBER.findall(entry.text)
        ),
    )


def _find_numbered(letter: str, name: str, items: Sequence[_T]) -> _T | None:
    match = _NUMBER.match(name)
    if not match or match[1].upper() != letter:
        return None
    index = int(match[2]) - 1
    return items[index] if 0 <= index < len(items) else None


def _format_file(file: FileFact) -> str:
    actions = ["deleted"] if file.deleted else [f"edited {len(file.edits)}×"] if file.edits else []
    if file.reads:
        actions.append(f"read {len(file.reads)}×")
    names = f": {', '.join(file.symbols[:4])}" if file.symbols else ""
    refs = format_refs(file.shown_in)
    return f"{file.path} ({', '.join(actions) or 'named'}{names}){refs}"


def _format_command(command: CommandFact) -> str:
    words = {"passed": "ok", "failed": "FAILED", "not shown": "how it ended is not recorded"}
    ending = words.get(command.result, command.result)
    note = command.outcome or command.error
    if note and command.result != "not shown":
        ending = f"{ending}: {note}"
    return f"{shorten_command(command.command, 200)} ({ending}){format_refs(command.refs, 2)}"


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
    """A sentence for the user: what the question left on disk."""


class AuthorDialogue:
    """One conversation: its turns as they are sent with the next question, and all replies."""

    def __init__(self, ask: Callable[[Sequence[AuthorTurn]], AuthorReply]) -> None:
        self.ask = ask
        self.redactor = Redactor()
        self.started = time.monotonic()
        self.turns: list[AuthorTurn] = []
        self.replies: list[AuthorReply] = []

    def ask_alone(self, question: str) -> str:
        """Ask a question that needs nothing of what was said before, and return the answer."""
        reply = self.ask([AuthorTurn("user", self.redactor.redact(question))])
        self.replies.append(reply)
        return reply.text

    def ask_question(self, question: str) -> str:
        """Ask a question, without secrets, and return the answer.

        The copy that later questions repeat is cut, and never empty: endpoints reject empty
        messages.
        """
        self.turns.append(AuthorTurn("user", self.redactor.redact(question)))
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
    """One draft to be written. `limits` are the caps of its sections, `budget` the tokens of its brief."""

    def __init__(
        self,
        thread: Thread,
        derived: DerivedFacts,
        goal: Goal,
        limits: dict[str, int],
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        self.budget = budget
        self.thread = thread
        self.derived = derived
        self.goal = goal
        self.limits = limits
        self.relevance = Relevance(thread, derived, goal.text)

    def clean(self, text: str) -> str:
        """Return what leaves this machine without secrets and invisible characters."""
        return self._redactor.redact_cited(remove_invisible(text))

    @cached_property
    def _redactor(self) -> QuoteRedactor:
        return self.build_redactor()

    def build_redactor(self) -> QuoteRedactor:
        """Build a redactor of texts that quote the thread."""
        entries = self.thread.entries
        given = self.derived.remember("given", lambda: list(find_given_secrets(entries)))
        return QuoteRedactor(self.thread, given)

    @cached_property
    def open_statements(self) -> list[Statement]:
        """What was said, not taken back later, and not done at once."""
        return self.derived.remember("open", self._find_open)

    def _find_open(self) -> list[Statement]:
        from tasuki.draft.facts.open_statements import find_done_at_once, find_superseded

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
            "room": int(self.budget * AUTHORED_SHARE),
        }
