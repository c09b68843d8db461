"""Rank what a successor needs: facts, files and blocks of messages."""
