"""Hugging Face's names for our parts, two ways, one file a family."""
