"""Looking inside a model: attention weights, and pictures of them."""
