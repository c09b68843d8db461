"""Uncommitted work that travels from one host to another as a git bundle: functions on folders."""
