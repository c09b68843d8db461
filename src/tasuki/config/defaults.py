"""Defaults that are also told where nothing may be read yet, as in `--help`."""

DEFAULT_BUDGET = 4_000
"""Tokens of a brief without its goal, where nothing else is set."""
