"""Pages of threads and their handoffs."""
