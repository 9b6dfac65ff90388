"""The report on a model: an HTML page, a model card, and tables for the terminal, all from one `Report`."""
