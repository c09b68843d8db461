"""The handoff document that tasuki itself writes from an agent's thread, by the ladder of authors."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.config import Loaded
from tasuki.draft import earlier_handoffs
from tasuki.fleet import documents
from tasuki.fleet.failures import StepFailed
from tasuki.fleet.rows import Agent, FleetHandoff
from tasuki.harness.typed_prompts import named_document
from tasuki.plain import plain

if TYPE_CHECKING:
    from tasuki.handoffs import Offer
    from tasuki.model import Thread


class WrittenDocument(Struct, frozen=True):
    """Who wrote a document, `thread (offline)`, and sentences for the operator on why it was not somebody else."""

    author: str
    notes: tuple[str, ...] = ()


def write_from_thread(
    path: Path, agent: Agent, handoff: FleetHandoff, loaded: Loaded, received: Path | None = None
) -> WrittenDocument:
    """Write the document of an agent from its thread. The vault keeps it under the handoff's own id.

    `received` is the document that the agent itself was to begin with. Raises StepFailed.
    """
    if not agent.thread or not harnesses.file_of(Path(agent.thread)).exists():
        raise StepFailed(
            "thread_missing",
            f"Agent {agent.id} has no thread ({agent.thread or 'none is known'}): it took no turn, or its harness "
            f"deleted it. The document would be {path}.",
        )
    offer, notes = _offered(agent, handoff, loaded)
    author = offer.handoff.draft.authorship.author
    head = (
        f"# Handoff of agent {agent.id}, written from its thread\n\n"
        f"The agent did not write this: tasuki did ({author}), from {agent.thread}.\n"
        f"Reason: {plain(handoff.reason)}\n"
    )
    earlier = _earlier(offer.thread, offer.brief, received)
    documents.write(path, f"{head}{earlier}\n{offer.brief}")
    return WrittenDocument(f"thread ({author})", tuple(map(plain, [*notes, *offer.told])))


def _offered(agent: Agent, handoff: FleetHandoff, loaded: Loaded) -> tuple["Offer", list[str]]:
    """The handoff of a thread by the author of the settings; by none where that one cannot be asked at all."""
    from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable

    settings = loaded.settings
    try:
        return _offer(agent, handoff, loaded), []
    except (ModelUnavailable, ExtraMissing, AuthorFailed) as error:
        if settings.strict or settings.author == "offline":
            raise StepFailed("author_failed", str(error)) from error
        said = (
            f"The author {settings.author} could not be asked, so it was written offline. {error}"
        )
        offline = replace(loaded, settings=replace(settings, author="offline"))
        return _offer(agent, handoff, offline), [said]


def _offer(agent: Agent, handoff: FleetHandoff, loaded: Loaded) -> "Offer":
    from tasuki import handoffs
    from tasuki.errors import NothingToHandOff, ThreadNotFound, ThreadUnreadable
    from tasuki.model import Goal
    from tasuki.vault import Vault

    harness = harnesses.get(agent.harness)
    words = plain(handoff.goal or handoff.context or agent.goal)  # what people said, or nothing
    try:
        return handoffs.offer(
            harness, Path(agent.thread), Goal(text=words, forced=True), loaded,
            successor=harness, vault=Vault(), must_keep=False, id=handoff.id,
        )  # fmt: skip
    except (ThreadNotFound, ThreadUnreadable) as error:
        raise StepFailed("thread_missing", str(error)) from error
    except NothingToHandOff as error:
        raise StepFailed("thread_unusable", str(error)) from error


def _earlier(thread: "Thread", brief: str, received: Path | None) -> str:
    """The document that an agent began with, and what is told of rulings that the brief has no room for."""
    named = (named_document(e.text) for e in thread.entries if e.kind == "user")
    document = next((path for path in named if path), "") or str(received or "")
    began = f"It had itself begun with the document {plain(document)}.\n" if document else ""
    rulings = documents.earlier_rulings(thread, received)
    lost = [line for line in rulings if line.strip('"') not in brief]
    if not lost:
        return began
    lines = "\n".join(f"- {' '.join(plain(line).split())}" for line in lost)
    return f"{began}\n## {earlier_handoffs.HANDED_ON}\n\n{lines}\n"
