"""Made-up cases with planted facts."""
