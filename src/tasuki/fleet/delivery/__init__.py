"""Deliver prompts to agents and prove that they arrived."""
