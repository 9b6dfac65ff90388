"""Tasks: how examples become batches, and what is learned from them. One short file for each kind."""
