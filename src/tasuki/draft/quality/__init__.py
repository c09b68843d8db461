"""Score a handoff document against its thread."""
