"""Handoffs and events for tests, as a draft leaves them."""

from tasuki.model import Citation, Draft, Goal, Handoff, HandoffEvent, Item, Predecessor
from tasuki.vault import create_handoff_id


def made(
    id: str = "",
    goal: str = "Fix the login timeout",
    created: str = "2025-11-02T10:00:00Z",
    *,
    parent: str = "",
    revises: str = "",
    thread: str = "t-1",
    to: str = "",
) -> Handoff:
    """A handoff with one cited entry."""
    kept = Goal(text=goal)
    return Handoff(
        id=id or create_handoff_id(),
        created=created,
        goal=kept,
        predecessor=Predecessor(harness="claude", thread_id=thread, path="/gone/t-1.jsonl"),
        draft=Draft(goal=kept, context=(Item("Überall ✓", refs=(3,)),)),
        parent=parent,
        revises=revises,
        to=to,
        citations=(Citation(ref=3, entry_id="e3", sha256="0" * 64, kind="user", text="always"),),
    )


def event(kind: str, **detail: str) -> HandoffEvent:
    """An event with its detail."""
    return HandoffEvent(at="2025-11-02T10:00:01Z", kind=kind, detail=detail)
