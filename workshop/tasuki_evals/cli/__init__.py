"""The commands of `tasuki eval`."""
