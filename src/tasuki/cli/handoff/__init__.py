"""Commands for handoffs."""
