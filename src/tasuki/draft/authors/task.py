"""What an author is given: the thread, its facts ranked for the goal, and the limits."""

from collections.abc import Callable
from functools import cached_property

from tasuki.draft.authors.inventory import Inventory, take
from tasuki.draft.facts import Derived
from tasuki.draft.rank import relevance_of
from tasuki.draft.redact import Redactor
from tasuki.draft.statements import Statement, done_at_once, superseded
from tasuki.model import Goal, Thread
from tasuki.plain import visible


class Task:
    """One draft to be written. `limits` are the caps of its sections."""

    def __init__(
        self, thread: Thread, derived: Derived, goal: Goal, limits: dict[str, int]
    ) -> None:
        self.thread = thread
        self.derived = derived
        self.goal = goal
        self.limits = limits
        self.relevance = relevance_of(thread, derived, goal)
        redactor = Redactor()
        self.clean: Callable[[str], str] = lambda text: redactor.redact(visible(text))
        """Takes secrets, and what nobody sees, out of what leaves this machine."""

    @cached_property
    def stated(self) -> list[Statement]:
        """What was said, not taken back later, and not done at once."""
        statements = self.derived.statements
        gone, done = superseded(statements), done_at_once(statements, self.thread.entries)
        return [s for i, s in enumerate(statements) if i not in gone and s not in done]

    @cached_property
    def inventory(self) -> Inventory:
        """The facts that an author who is asked chooses from."""
        return take(self.thread, self.derived.facts, self.stated, self.relevance)

    def prompt_limits(self) -> dict[str, int]:
        """The caps of the sections, by the names that prompts know them by."""
        limits = self.limits
        return {
            "max_files": limits["files"],
            "max_commands": limits["commands"],
            "max_information": limits["context"],
            "max_decisions": limits["decisions"],
            "max_questions": limits["questions"],
        }
