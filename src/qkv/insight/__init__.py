"""Look inside a model: attention weights and plots of them."""
