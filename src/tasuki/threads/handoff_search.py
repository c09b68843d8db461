"""Search stored handoffs, and choose those that may be deleted."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from tasuki.errors import TasukiError
from tasuki.model import Handoff
from tasuki.threads.query import parse_query, split_tokens
from tasuki.vault import Vault, build_lineage

DAY = 86_400.0
LINES = 3
"""The number of lines of one brief that are shown."""


T = TypeVar("T")
Candidate = tuple[T, str, str, str]
"""Something to search, when it was created (ISO 8601), its goal and its whole text."""


def search_handoffs(vault: Vault, words: str, limit: int) -> list[tuple[Handoff, Sequence[str]]]:
    """Find handoffs whose goal or brief hold most of the words, each with the matching lines."""
    return rank_candidates(list_candidates(vault), words, limit)


def list_candidates(vault: Vault) -> Iterator[Candidate[Handoff]]:
    """Yield the handoffs of the vault, to be searched."""
    for handoff in vault.list_handoffs():
        text = handoff.goal.text
        with contextlib.suppress(TasukiError):
            text = vault.load_brief(handoff.id)
        yield handoff, handoff.created, handoff.goal.text, text


def rank_candidates(
    candidates: Iterable[Candidate[T]], words: str, limit: int
) -> list[tuple[T, Sequence[str]]]:
    """Return the candidates that hold most of the words, each with the matching lines.

    The newest is first among equals.
    """
    wanted = [" ".join(parts) for word in parse_query(words).words if (parts := split_tokens(word))]
    matches: list[tuple[float, str, T, Sequence[str]]] = []
    for candidate, created, goal, text in candidates:
        lines = [(line, " ".join(split_tokens(line))) for line in text.splitlines()]
        hits = [w for w in wanted if any(w in low for _, low in lines)]
        if not hits:
            continue
        ranked = sorted(lines, key=lambda pair: -sum(w in pair[1] for w in hits))
        matching_lines = [
            line.strip() for line, low in ranked[:LINES] if any(w in low for w in hits)
        ]
        in_goal = sum(w in " ".join(split_tokens(goal)) for w in hits)
        matches.append((len(hits) + 0.5 * in_goal, created, candidate, matching_lines))
    matches.sort(key=lambda row: row[1], reverse=True)
    matches.sort(key=lambda row: -row[0])
    return [(one, lines) for _, _, one, lines in matches[:limit]]


def find_prunable(
    vault: Vault,
    *,
    days: int,
    keep: int,
    only_drafts: bool,
    now: float,
    needed: Collection[str] = (),
) -> list[Handoff]:
    """Find handoffs that may be deleted, oldest first; `now` is in seconds since the epoch.

    The ancestors of a kept handoff are kept, and so is what is uncertain, has no date, or is
    `needed` (ids): a handoff of the fleet in progress, or one whose successor works. As long as
    a handoff cannot be read (`vault.problems`), none is deleted: it may descend from any.
    """
    whole = build_lineage(vault, printed=True)
    if vault.problems:  # What cannot be read may descend from any of them.
        return []
    newest = [node for node in reversed(whole.nodes.values()) if node.handoff]
    spared = _STARTED if only_drafts else ("uncertain",)
    deletable = {
        node.id: node.handoff
        for node in newest[keep:]
        if node.handoff
        and _is_older(node.handoff, now - days * DAY)
        and node.state not in spared
        and node.id not in needed
    }
    for node in newest:
        if node.id not in deletable:
            for ancestor in whole.list_chain(node.id):
                deletable.pop(ancestor, None)
    return sorted(deletable.values(), key=lambda handoff: handoff.created)


_STARTED = ("started", "delivered", "acknowledged", "uncertain", "failed")


def _is_older(handoff: Handoff, limit: float) -> bool:
    try:
        return datetime.fromisoformat(handoff.created).timestamp() <= limit
    except (ValueError, OverflowError):
        return False
