"""The handoff document that tasuki itself writes from an agent's thread, by the fallback order."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings
from tasuki.draft.facts import earlier_handoffs
from tasuki.fleet.handoff import documents
from tasuki.fleet.store.failures import StepFailed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.harness import registry as harnesses
from tasuki.harness.reading.typed_prompts import find_named_document
from tasuki.text_safety import clean_text

if TYPE_CHECKING:
    from tasuki.handoffs import PreparedHandoff
    from tasuki.model import Thread


class WrittenDocument(Struct, frozen=True):
    """The author of a document, `thread (offline)`, and notes on why it was not another one."""

    author: str
    notes: tuple[str, ...] = ()


def write_from_thread(
    path: Path,
    agent: FleetAgent,
    handoff: FleetHandoff,
    loaded: LoadedSettings,
    received: Path | None = None,
) -> WrittenDocument:
    """Write the document of an agent from its thread; the vault keeps it under the handoff's id.

    `received` is the document that the agent itself began with. Raises StepFailed.
    """
    if not agent.thread or not harnesses.get_containing_file(Path(agent.thread)).exists():
        raise StepFailed(
            "thread_missing",
            f"Agent {agent.id} has no thread ({agent.thread or 'none is known'}): it took no turn, or its harness "
            f"deleted it. The document would be {path}.",
        )
    prepared, notes = _prepare_with_fallback(agent, handoff, loaded)
    author = prepared.handoff.draft.authorship.author
    head = (
        f"# Handoff of agent {agent.id}, written from its thread\n\n"
        f"The agent did not write this: tasuki did ({author}), from {agent.thread}.\n"
        f"Reason: {clean_text(handoff.reason)}\n"
    )
    earlier = _format_earlier(prepared.thread, prepared.brief, received)
    documents.write_document(path, f"{head}{earlier}\n{prepared.brief}")
    return WrittenDocument(
        f"thread ({author})", tuple(map(clean_text, [*notes, *prepared.authorship_notes]))
    )


def _prepare_with_fallback(
    agent: FleetAgent, handoff: FleetHandoff, loaded: LoadedSettings
) -> tuple["PreparedHandoff", list[str]]:
    """Prepare the handoff by the author of the settings; offline where that one cannot be asked."""
    from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable

    settings = loaded.settings
    try:
        return _prepare_handoff(agent, handoff, loaded), []
    except (ModelUnavailable, ExtraMissing, AuthorFailed) as error:
        if settings.strict or settings.author == "offline":
            raise StepFailed("author_failed", str(error)) from error
        note = (
            f"The author {settings.author} could not be asked, so it was written offline. {error}"
        )
        offline = replace(loaded, settings=replace(settings, author="offline"))
        return _prepare_handoff(agent, handoff, offline), [note]


def _prepare_handoff(
    agent: FleetAgent, handoff: FleetHandoff, loaded: LoadedSettings
) -> "PreparedHandoff":
    from tasuki import handoffs
    from tasuki.errors import NothingToHandOff, ThreadNotFound, ThreadUnreadable
    from tasuki.model import Goal
    from tasuki.vault import Vault

    harness = harnesses.get_harness(agent.harness)
    goal_text = clean_text(
        handoff.goal or handoff.context or agent.goal
    )  # only words of people, or nothing
    try:
        return handoffs.prepare_handoff(
            harness, Path(agent.thread), Goal(text=goal_text, forced=True), loaded,
            successor=harness, vault=Vault(), must_keep=False, id=handoff.id,
        )  # fmt: skip
    except (ThreadNotFound, ThreadUnreadable) as error:
        raise StepFailed("thread_missing", str(error)) from error
    except NothingToHandOff as error:
        raise StepFailed("thread_unusable", str(error)) from error


def _format_earlier(thread: "Thread", brief: str, received: Path | None) -> str:
    """Format the document that an agent began with, and earlier rulings that the brief left out."""
    named = (find_named_document(e.text) for e in thread.entries if e.kind == "user")
    document = next((path for path in named if path), "") or str(received or "")
    introduction = (
        f"It had itself begun with the document {clean_text(document)}.\n" if document else ""
    )
    rulings = documents.collect_earlier_rulings(thread, received)
    missing = [line for line in rulings if line.strip('"') not in brief]
    if not missing:
        return introduction
    lines = "\n".join(f"- {' '.join(clean_text(line).split())}" for line in missing)
    return f"{introduction}\n## {earlier_handoffs.HANDED_ON_HEADING}\n\n{lines}\n"
