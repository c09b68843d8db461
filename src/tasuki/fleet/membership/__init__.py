"""Hosts join the fleet's PostgreSQL, each with a role of its own, and leave it."""

URL_FILE = "database-url"
"""In the server's folder: the URL with which a host that joined reaches the database."""
