"""Answer the hooks of a harness."""
