"""The fleet over HTTP: REST, live events, hooks, metrics. Needs the extra `server`."""
