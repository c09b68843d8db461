"""Install hooks, commands and tools into a harness, by small edits of its own files."""
