"""Convert text to token ids and back."""
