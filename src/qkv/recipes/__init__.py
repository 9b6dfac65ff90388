"""Recipes: one TOML file is one full run."""
