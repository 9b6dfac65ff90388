"""Runs: from a recipe to a trained model, with search, fine-tuning and GLUE."""
