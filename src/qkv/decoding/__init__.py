"""From scores to sequences."""
