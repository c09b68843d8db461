"""Commands for the fleet."""
