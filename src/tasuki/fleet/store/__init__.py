"""The database of the fleet: tables, queries, migrations and pruning."""
