"""The core of tasuki: it turns a thread and a goal into a checked handoff."""
