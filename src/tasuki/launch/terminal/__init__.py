"""Start programs in this terminal."""
