"""Start and drive programs in tmux."""
