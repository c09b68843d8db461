"""The craft: from a thread and a goal to a checked handoff."""
