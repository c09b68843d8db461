"""Harness adapters: one folder or file for each harness, all with the same protocol."""
