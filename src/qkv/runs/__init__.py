"""From a recipe to a run: its folder, its data, training, search and fine-tuning."""
