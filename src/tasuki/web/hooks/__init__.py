"""Routes that hooks of agents call."""
