"""Sessions stored in the format of pi v3."""
