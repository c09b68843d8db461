"""Test equipment: scripted agents, a scripted model server, a scripted harness."""

import os

FAKE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fake.py")
"""Runs a module of this package as a program of its own: `python FAKE acp_agent SCRIPT`."""
