"""Read and write model folders and training checkpoints."""
