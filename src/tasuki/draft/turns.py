"""Turns of a thread: a message of the user, and what the agent said and did until the next one."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tasuki.draft.entries import users_words
from tasuki.model import Entry


class Turn(Struct, frozen=True):
    """One message of the user with all that followed. `asked` is None before the first message."""

    asked: Entry | None
    entries: tuple[Entry, ...]

    @property
    def said(self) -> tuple[Entry, ...]:
        """The agent's messages, in order."""
        return tuple(e for e in self.entries if e.kind == "assistant" and e.text.strip())

    @property
    def conclusion(self) -> Entry | None:
        """The agent's last message of the turn, None if it said nothing."""
        said = self.said
        return said[-1] if said else None

    @property
    def is_ended(self) -> bool:
        """Whether the agent's last message came after its last tool call."""
        return bool(self.entries) and self.entries[-1].kind == "assistant"


def split_turns(entries: Sequence[Entry]) -> list[Turn]:
    """The turns of a thread, in order; what comes before the first message is a turn of its own."""
    turns: list[Turn] = []
    asked: Entry | None = None
    rest: list[Entry] = []
    for entry in entries:
        if entry.kind == "user" and users_words(entry):
            if asked or rest:
                turns.append(Turn(asked, tuple(rest)))
            asked, rest = entry, []
        else:
            rest.append(entry)
    if asked or rest:
        turns.append(Turn(asked, tuple(rest)))
    return turns


def concluding_refs(turns: Iterable[Turn]) -> set[int]:
    """The messages in which the agent came to an end of a turn."""
    return {t.conclusion.ref for t in turns if t.conclusion and t.is_ended}


def newest_conclusion(turns: Iterable[Turn]) -> Entry | None:
    """The agent's last message of all."""
    return next((t.conclusion for t in reversed(list(turns)) if t.conclusion), None)
