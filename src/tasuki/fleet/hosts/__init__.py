"""The hosts that run a fleet, and which of them owns which agents."""
