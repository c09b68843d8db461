"""Handoffs kept as files, one folder each; their lineage is derived from them."""

from tasuki.data_folder import data_folder
from tasuki.vault.lineage import Lineage, Node, draw, lineage
from tasuki.vault.store import State, Vault, cited, new_id, state_of

__all__ = [
    "Lineage",
    "Node",
    "State",
    "Vault",
    "cited",
    "data_folder",
    "draw",
    "lineage",
    "new_id",
    "state_of",
]
