"""Exams: a model scored on files with the right answers."""
