"""One loop for every recipe."""
