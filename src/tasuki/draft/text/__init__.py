"""Split and match text: sentences, identifiers, language cues, verbatim search."""
