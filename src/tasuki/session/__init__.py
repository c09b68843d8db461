"""Handoffs inside a running session: session files, AgentSession, and agents that speak ACP."""
