"""Rows as they leave the server: without secrets in what people and agents wrote."""

import os
from typing import Any, TypeVar

import msgspec

from tasuki.draft.redact import Redactor
from tasuki.fleet.lost_agents import LostAgent
from tasuki.fleet.reading import Chain
from tasuki.fleet.rows import Agent, FleetHandoff

T = TypeVar("T", Agent, FleetHandoff)
MOST_DOCUMENT = 1 << 20
"""Bytes of a handoff document that are shown."""
_WRITTEN = ("goal", "arguments", "end_reason", "waiting_for", "children", "last_words")
_SAID = ("reason", "context", "goal", "injection_prompt", "failure", "notes")


def agent(of: Agent) -> dict[str, Any]:
    """An agent."""
    return _redacted(of, _WRITTEN)


def handoff(of: FleetHandoff) -> dict[str, Any]:
    """A handoff."""
    return _redacted(of, _SAID)


def lost_agent(of: LostAgent, made: FleetHandoff | None = None) -> dict[str, Any]:
    """A lost agent, why it cannot be carried on, and the handoff that does."""
    return {
        "agent": agent(of.agent), "refused": of.refused, "retried": of.retried.id if of.retried else "",
        "handoff": handoff(made) if made else None,
    }  # fmt: skip


def redacted(of: T) -> T:
    """An agent or a handoff as the row that it is, without secrets."""
    return msgspec.convert(agent(of) if isinstance(of, Agent) else handoff(of), type(of))


def chain(of: Chain) -> list[dict[str, Any]]:
    """The links of a chain."""
    return [
        {
            "agent": agent(link.agent),
            "handoff": handoff(link.handoff) if link.handoff else None,
            "took_over": link.took_over,
        }
        for link in of.links
    ]


def document(path: str) -> str | None:
    """What stands in a handoff document, at most 1 MiB of it; None where there is none.

    A link in its place is not followed.
    """
    if not path:
        return None
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            content = file.read(MOST_DOCUMENT)
    except OSError:
        return None
    return Redactor().redact(content.decode("utf-8", "replace"))


def _redacted(row: msgspec.Struct, fields: tuple[str, ...]) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    redactor = Redactor()
    for name in fields:
        if view[name]:
            view[name] = redactor.redact_data(view[name])
    return view
