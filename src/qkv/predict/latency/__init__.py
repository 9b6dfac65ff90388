"""How long the answers of a model take, with every engine that can run it."""
