"""Checks of what the summary of a compaction claims."""
