"""Personas and live agents in tmux panes, and the handoff between them that survives a crash."""
