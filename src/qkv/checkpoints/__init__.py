"""The model folder, read and written."""
