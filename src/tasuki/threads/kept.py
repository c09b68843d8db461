"""Searching stored handoffs, and choosing those that may go."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from tasuki.errors import TasukiError
from tasuki.model import Handoff
from tasuki.threads.query import parse, tokens
from tasuki.vault import Vault, lineage

DAY = 86_400.0
LINES = 3
"""Lines of one brief that are shown."""


T = TypeVar("T")
Candidate = tuple[T, str, str, str]
"""Something to search, when it was made (ISO 8601), its goal and its whole text."""


def search(vault: Vault, words: str, limit: int) -> list[tuple[Handoff, Sequence[str]]]:
    """Handoffs whose goal or brief hold most of the words, each with the lines that do."""
    return rank(stored(vault), words, limit)


def stored(vault: Vault) -> Iterator[Candidate[Handoff]]:
    """The handoffs of the vault, to be searched."""
    for handoff in vault.all():
        text = handoff.goal.text
        with contextlib.suppress(TasukiError):
            text = vault.brief(handoff.id)
        yield handoff, handoff.created, handoff.goal.text, text


def rank(
    candidates: Iterable[Candidate[T]], words: str, limit: int
) -> list[tuple[T, Sequence[str]]]:
    """Those that hold most of the words, the newest first among equals, each with the lines that do."""
    wanted = [" ".join(parts) for word in parse(words).words if (parts := tokens(word))]
    found: list[tuple[float, str, T, Sequence[str]]] = []
    for one, created, goal, text in candidates:
        lines = [(line, " ".join(tokens(line))) for line in text.splitlines()]
        hits = [w for w in wanted if any(w in low for _, low in lines)]
        if not hits:
            continue
        ranked = sorted(lines, key=lambda pair: -sum(w in pair[1] for w in hits))
        shown = [line.strip() for line, low in ranked[:LINES] if any(w in low for w in hits)]
        in_goal = sum(w in " ".join(tokens(goal)) for w in hits)
        found.append((len(hits) + 0.5 * in_goal, created, one, shown))
    found.sort(key=lambda row: row[1], reverse=True)
    found.sort(key=lambda row: -row[0])
    return [(one, lines) for _, _, one, lines in found[:limit]]


def prunable(
    vault: Vault,
    *,
    days: int,
    keep: int,
    only_drafts: bool,
    now: float,
    needed: Collection[str] = (),
) -> list[Handoff]:
    """Handoffs that may be deleted, oldest first; `now` is in seconds since the epoch.

    What a kept handoff descends from stays, and so does what is uncertain, has no date, or is `needed`
    (ids): a handoff of the fleet that is under way, or whose successor works. As long
    as a handoff cannot be read (`vault.problems`), none goes: it may descend from any.
    """
    whole = lineage(vault, printed=True)
    if vault.problems:  # What cannot be read may descend from any of them.
        return []
    newest = [node for node in reversed(whole.nodes.values()) if node.handoff]
    spared = _STARTED if only_drafts else ("uncertain",)
    going = {
        node.id: node.handoff
        for node in newest[keep:]
        if node.handoff
        and _older(node.handoff, now - days * DAY)
        and node.state not in spared
        and node.id not in needed
    }
    for node in newest:
        if node.id not in going:
            for ancestor in whole.chain(node.id):
                going.pop(ancestor, None)
    return sorted(going.values(), key=lambda handoff: handoff.created)


_STARTED = ("started", "delivered", "acknowledged", "uncertain", "failed")


def _older(handoff: Handoff, moment: float) -> bool:
    try:
        return datetime.fromisoformat(handoff.created).timestamp() <= moment
    except (ValueError, OverflowError):
        return False
