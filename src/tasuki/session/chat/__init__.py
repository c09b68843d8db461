"""A terminal conversation with any agent that speaks ACP: the reference interface of a session."""
