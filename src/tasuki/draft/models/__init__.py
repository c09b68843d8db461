"""Ask a language model: providers, keys and the client."""
