"""Hosts join the fleet's PostgreSQL, each with a role of its own, and leave it."""
