"""Check a draft against its thread."""
