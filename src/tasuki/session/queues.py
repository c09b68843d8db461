"""What waits for the end of a turn: the user's own words, and notes that go along with them."""

from collections.abc import Sequence


class Queues:
    """Words of the user that steer or follow up, and notes for the next turn."""

    def __init__(self) -> None:
        self.steering: list[str] = []
        self.follow_up: list[str] = []
        self.next_turn: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        """The user's words, in the order in which they will go."""
        return (*self.steering, *self.follow_up)

    @property
    def next(self) -> str:
        """The words of the user that go next; empty if none wait."""
        return next(iter(self.waiting), "")

    def drop_next(self) -> None:
        """Take those out, now that they are kept elsewhere."""
        (self.steering or self.follow_up).pop(0)

    def take_notes(self) -> list[str]:
        """All notes for the next turn, taken out."""
        notes, self.next_turn = self.next_turn, []
        return notes

    def clear(self) -> tuple[str, ...]:
        """Empty all; the user's own words, which nobody may lose."""
        words = self.waiting
        self.steering, self.follow_up, self.next_turn = [], [], []
        return words


def reminder(todos: Sequence[str]) -> str:
    """A note that calls open todos to mind."""
    return "Still open in your todo list:\n" + "\n".join(f"- {todo}" for todo in todos)
