"""Handoffs stored as files, one folder each; their lineage is derived from them."""

from tasuki.vault.store import Vault, create_handoff_id, derive_state

__all__ = ["Vault", "create_handoff_id", "derive_state"]
