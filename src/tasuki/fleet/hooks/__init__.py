"""Take in events of hooks."""
