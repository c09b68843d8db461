"""The database of the fleet: tables, queries and pruning."""
