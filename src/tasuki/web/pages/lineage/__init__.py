"""Pages of lineage."""
