"""The training loop, shared by every recipe."""
