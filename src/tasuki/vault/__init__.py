"""Handoffs stored as files, one folder each; their lineage is derived from them."""

from tasuki.vault.lineage import Successor, build_lineage, draw_lineage
from tasuki.vault.store import Vault, create_handoff_id, derive_state

__all__ = [
    "Successor",
    "Vault",
    "build_lineage",
    "create_handoff_id",
    "derive_state",
    "draw_lineage",
]
