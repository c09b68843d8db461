"""Hands a coding agent's work from one thread to a fresh one."""

__all__ = ["__version__"]

__version__ = "0.1.0"
