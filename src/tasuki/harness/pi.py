"""pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`. Seen: 0.73 to 1.5, and files of 2025."""
