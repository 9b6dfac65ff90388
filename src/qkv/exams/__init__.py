"""Evaluation of a model on files with the correct answers."""
