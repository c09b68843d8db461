"""Commands for threads."""
