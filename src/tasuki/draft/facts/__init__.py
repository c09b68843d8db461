"""Derive facts from a thread: files, commands, statements, and the state of the work."""
