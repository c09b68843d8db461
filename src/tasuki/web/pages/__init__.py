"""The dashboard: a module for each page, which reads what its template shows."""
