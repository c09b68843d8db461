"""Hands a coding agent's work from one thread to a fresh one."""

__version__ = "0.1.0"
