"""Alerts: what happened, who is notified, what runs by itself."""
