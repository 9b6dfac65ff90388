"""Decoding: from logits to sequences."""
