"""Five made-up threads with planted facts and decoys, and how a brief is judged by them."""
