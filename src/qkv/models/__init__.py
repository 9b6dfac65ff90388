"""The families: a frozen config, a short builder over the parts, presets as numbers."""
