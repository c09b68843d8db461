"""What a text claims of a thread, and whether that is true."""
