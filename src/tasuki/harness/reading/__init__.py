"""Read thread files: tolerant JSON lines, Markdown transcripts, prompts that were typed."""
