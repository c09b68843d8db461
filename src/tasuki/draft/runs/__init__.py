"""How the shell commands of a thread ended: which run checks, what their runners print, whose the exit code is."""
