"""The continuation benchmark."""
