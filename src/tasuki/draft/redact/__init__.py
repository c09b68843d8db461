"""Find and mark secrets in text."""
