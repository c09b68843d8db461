"""Texts of an entry, and the turns of a thread."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tasuki.harness.reading.jsonl import extract_words_after_handoff
from tasuki.harness.reading.typed_prompts import extract_human_words
from tasuki.model import Entry

BY_HAND = ("typed", "queued", "answer")
"""Origins of what the user wrote with their own hands."""


def extract_user_words(entry: Entry) -> str:
    """Return what the user wrote in an entry, also after a handoff in the same prompt, or ''.

    Prompts that tasuki typed are not the user's words. A goal or an operator's note that one of
    them passes on is, without its label.
    """
    if entry.kind != "user":
        return ""
    if entry.origin in BY_HAND:
        return extract_human_words(entry.text)
    return (
        extract_human_words(extract_words_after_handoff(entry.text))
        if entry.origin == "handoff"
        else ""
    )


def strip_handoff(entry: Entry) -> str:
    """Return a prompt without the handoff at its start and without what tasuki typed."""
    return extract_human_words(
        extract_words_after_handoff(entry.text) if entry.origin == "handoff" else entry.text
    )


def join_entry_text(entry: Entry) -> str:
    """Return everything in an entry as one text: words, command, paths, changes, output."""
    call = entry.tool
    if call is None:
        return entry.text
    changes = [t for c in call.changes for t in (c.path, c.old, c.new)]
    todos = [t.text for t in call.todos or ()]
    if not (changes or todos or call.detail or call.paths):
        return f"{call.command}\n{call.output}"
    return "\n".join(
        (entry.text, call.command, call.detail, *call.paths, *changes, *todos, call.output)
    )


def format_entry(entry: Entry) -> str:
    """Return an entry in readable form: words, or the call with its changes and result."""
    call = entry.tool
    if call is None:
        return entry.text
    head = f"{call.name} {call.command or call.detail or ' '.join(call.paths)}".strip()
    changes = "".join(f"\n{_format_change(c.path, c.old, c.new)}" for c in call.changes)
    todos = "".join(f"\n[{t.status}] {t.text}" for t in call.todos or ())
    code = f" (exit {call.exit_code})" if call.exit_code else ""
    return f"{head}{changes}{todos}\n→ {call.status}{code}\n{call.output}".rstrip()


def _format_change(path: str, old: str, new: str) -> str:
    minus = "".join(f"\n-{line}" for line in old.split("\n")) if old else ""
    plus = "".join(f"\n+{line}" for line in new.split("\n")) if new else ""
    return f"{path}{minus}{plus}"


class ThreadTurn(Struct, frozen=True):
    """One message of the user with all that followed. `prompt` is None before the first message."""

    prompt: Entry | None
    entries: tuple[Entry, ...]

    @property
    def messages(self) -> tuple[Entry, ...]:
        """The agent's messages, in order."""
        return tuple(e for e in self.entries if e.kind == "assistant" and e.text.strip())

    @property
    def conclusion(self) -> Entry | None:
        """The agent's last message of the turn, None if it said nothing."""
        said = self.messages
        return said[-1] if said else None

    @property
    def is_ended(self) -> bool:
        """Whether the agent's last message came after its last tool call."""
        return bool(self.entries) and self.entries[-1].kind == "assistant"


def split_turns(entries: Sequence[Entry]) -> list[ThreadTurn]:
    """The turns of a thread in order; what comes before the first message is a separate turn."""
    turns: list[ThreadTurn] = []
    prompt: Entry | None = None
    rest: list[Entry] = []
    for entry in entries:
        if entry.kind == "user" and extract_user_words(entry):
            if prompt or rest:
                turns.append(ThreadTurn(prompt, tuple(rest)))
            prompt, rest = entry, []
        else:
            rest.append(entry)
    if prompt or rest:
        turns.append(ThreadTurn(prompt, tuple(rest)))
    return turns


def find_concluding_refs(turns: Iterable[ThreadTurn]) -> set[int]:
    """Return the messages in which the agent came to an end of a turn."""
    return {t.conclusion.ref for t in turns if t.conclusion and t.is_ended}


def find_newest_conclusion(turns: Iterable[ThreadTurn]) -> Entry | None:
    """Return the agent's last message of all."""
    return next((t.conclusion for t in reversed(list(turns)) if t.conclusion), None)
