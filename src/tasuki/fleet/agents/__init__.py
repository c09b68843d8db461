"""Agents of the fleet: their personas, life and messages."""
