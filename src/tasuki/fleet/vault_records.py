"""What the vault keeps of a handoff from a thread follows the handoff: started, delivered, acknowledged.

The record is under the handoff's own id. A record that is missing, or cannot be written, holds no
handoff up.
"""

import logging
from contextlib import suppress

from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.fleet import reading, workflow
from tasuki.fleet.database import Database
from tasuki.fleet.rows import FleetHandoff

_TOLD = {"register": "started", "deliver": "delivered", "acknowledge": "acknowledged"}
"""What is noted when a step is done."""

logger = logging.getLogger("tasuki.fleet")


def follow_step(database: Database, of: FleetHandoff, step: str) -> None:
    """Note what a step that is done means for the record of its handoff."""
    kind = _TOLD.get(step)
    if kind is None or not of.from_thread:
        return
    detail = {}
    if kind == "started":
        successor = reading.agent(database, reading.handoff(database, of.id).successor_id or 0)
        detail = {
            "harness": successor.harness, "where": "tmux", "successor_thread": successor.session,
            "successor_path": successor.thread,
        }  # fmt: skip
    _note(of.id, kind, **detail)


def follow_failure(of: FleetHandoff, step: str, state: str, sentence: str) -> None:
    """Note that a step failed which concerns the successor."""
    if of.from_thread and step in workflow.SUCCESSOR:
        _note(of.id, state, reason=sentence)


def follow_order(of: FleetHandoff) -> None:
    """Note that the operator called a handoff done."""
    if of.from_thread and of.state == "done":
        _note(of.id, "delivered", by="the operator")


def _note(id: str, kind: str, **detail: str) -> None:
    """Add an event, once in a row: a step that is carried out again says nothing new."""
    from tasuki.draft.redact import Redactor
    from tasuki.handoffs import event
    from tasuki.vault import Vault

    vault = Vault()
    with suppress(HandoffNotFound):  # it could not be kept, or was pruned
        try:
            redactor = Redactor()
            told = {name: redactor.redact(text) for name, text in detail.items()}
            known = vault.events(id)
            if not known or known[-1].kind != kind:
                vault.append(id, event(kind, **told))
        except StoreFailed as error:
            logger.warning("The record of handoff %s: %s", id[:8], error)
