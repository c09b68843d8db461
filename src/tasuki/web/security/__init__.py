"""Who may ask: tokens, browser sessions, and the checks of each request."""
