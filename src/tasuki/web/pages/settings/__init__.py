"""The settings: sections behind a navigation of their own, each with a page."""
