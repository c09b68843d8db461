"""The catalogue of threads: list and find."""
