"""A running session that can hand itself off."""
