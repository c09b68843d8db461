"""What tools do and what their calls mean, by name and by shape, for all harnesses."""
