"""Handoffs stored as files, one folder each; their lineage is derived from them."""

from tasuki.files import get_data_folder
from tasuki.vault.lineage import Lineage, LineageNode, Successor, build_lineage, draw_lineage
from tasuki.vault.store import State, Vault, create_handoff_id, derive_state

__all__ = [
    "Lineage",
    "LineageNode",
    "State",
    "Successor",
    "Vault",
    "build_lineage",
    "create_handoff_id",
    "derive_state",
    "draw_lineage",
    "get_data_folder",
]
