"""Export: graphs of a model for other engines, and models that run from such graphs."""
