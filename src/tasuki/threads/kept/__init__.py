"""Copies of threads that outlive the harness's own files: written, read, bounded, deleted."""
