"""Look inside a model: attention weights and pictures of them, heads, layers, and the words behind an answer."""
