"""Session files of pi and oh-my-pi, version 3."""
