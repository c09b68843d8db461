"""Rows as they leave the server: without secrets in what people and agents wrote."""

import os
from typing import Any, TypeVar

import msgspec

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.agents.agent_ends import LostAgent
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.fleet.store.queries import LineageChain

T = TypeVar("T", FleetAgent, FleetHandoff)
MOST_DOCUMENT_BYTES = 1 << 20
"""Most bytes of a handoff document that are shown."""
_AGENT_FIELDS = ("goal", "arguments", "end_reason", "waiting_for", "children", "last_words")
_HANDOFF_FIELDS = ("reason", "context", "goal", "injection_prompt", "failure", "notes")


def redact_agent(row: FleetAgent) -> dict[str, Any]:
    """Return an agent as data, without secrets."""
    return _redact_fields(row, _AGENT_FIELDS)


def redact_handoff(row: FleetHandoff) -> dict[str, Any]:
    """Return a handoff as data, without secrets."""
    return _redact_fields(row, _HANDOFF_FIELDS)


def redact_lost_agent(lost: LostAgent, recovery: FleetHandoff | None = None) -> dict[str, Any]:
    """Return a lost agent, why it cannot be recovered, and the handoff that recovers it."""
    return {
        "agent": redact_agent(lost.agent), "refused": lost.refused, "retried": lost.retried.id if lost.retried else "",
        "handoff": redact_handoff(recovery) if recovery else None,
    }  # fmt: skip


def redact_row(row: T) -> T:
    """Return an agent or a handoff as the same struct, without secrets."""
    return msgspec.convert(
        redact_agent(row) if isinstance(row, FleetAgent) else redact_handoff(row), type(row)
    )


def redact_chain(lineage_chain: LineageChain) -> list[dict[str, Any]]:
    """Return the links of a chain as data, without secrets."""
    return [
        {
            "agent": redact_agent(link.agent),
            "handoff": redact_handoff(link.handoff) if link.handoff else None,
            "took_over": link.took_over,
        }
        for link in lineage_chain.links
    ]


def read_document(path: str) -> str | None:
    """Read a handoff document, at most 1 MiB; None where there is none.

    A link in its place is not followed.
    """
    if not path:
        return None
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            content = file.read(MOST_DOCUMENT_BYTES)
    except OSError:
        return None
    return Redactor().redact(content.decode("utf-8", "replace"))


def _redact_fields(row: msgspec.Struct, fields: tuple[str, ...]) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    redactor = Redactor()
    for name in fields:
        if view[name]:
            view[name] = redactor.redact_data(view[name])
    return view
