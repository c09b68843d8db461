"""Live events and live pages."""
