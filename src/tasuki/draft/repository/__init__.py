"""Repositories in a thread: checkouts, commits, pull requests, and what is not committed."""
