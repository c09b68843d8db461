"""A model as judge of briefs."""
