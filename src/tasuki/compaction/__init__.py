"""What a harness's own compaction left out or got wrong, and how it is put right."""
