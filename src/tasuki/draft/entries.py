"""What an entry holds: all of it, to search in, and as a person reads it."""

from tasuki.harness.jsonl import after_handoff
from tasuki.harness.typed_prompts import peoples_words
from tasuki.model import Entry

BY_HAND = ("typed", "queued", "answer")
"""Origins of what the user wrote with their own hands."""


def users_words(entry: Entry) -> str:
    """What the user wrote in an entry, also after a handoff in the same prompt; empty if nothing.

    Prompts that tasuki typed are not the user's words. A goal or an operator's note that one of them
    passes on is, without its label.
    """
    if entry.kind != "user":
        return ""
    if entry.origin in BY_HAND:
        return peoples_words(entry.text)
    return peoples_words(after_handoff(entry.text)) if entry.origin == "handoff" else ""


def beside_handoff(entry: Entry) -> str:
    """A prompt without the handoff that it may begin with, and without what tasuki itself typed."""
    return peoples_words(after_handoff(entry.text) if entry.origin == "handoff" else entry.text)


def entry_text(entry: Entry) -> str:
    """Everything an entry holds, as one text: words, command, paths, changes, output."""
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


def readable(entry: Entry) -> str:
    """An entry as a person reads it: words, or the call with its changes and result."""
    call = entry.tool
    if call is None:
        return entry.text
    head = f"{call.name} {call.command or call.detail or ' '.join(call.paths)}".strip()
    changes = "".join(f"\n{_change(c.path, c.old, c.new)}" for c in call.changes)
    todos = "".join(f"\n[{t.status}] {t.text}" for t in call.todos or ())
    code = f" (exit {call.exit_code})" if call.exit_code else ""
    return f"{head}{changes}{todos}\n→ {call.status}{code}\n{call.output}".rstrip()


def _change(path: str, old: str, new: str) -> str:
    minus = "".join(f"\n-{line}" for line in old.split("\n")) if old else ""
    plus = "".join(f"\n+{line}" for line in new.split("\n")) if new else ""
    return f"{path}{minus}{plus}"
