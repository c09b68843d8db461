"""Harness adapters: one folder or file for each harness, behind the protocol that all keep."""
