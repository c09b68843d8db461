"""How pages and the API show things: templates, states, Markdown, redaction."""
