"""Settings: where they come from, what values are valid, and how the user file is edited."""
