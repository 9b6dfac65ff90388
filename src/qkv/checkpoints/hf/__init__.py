"""Conversion to and from Hugging Face's names, with one file per format."""
