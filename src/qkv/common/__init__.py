"""What every room shares: the ragged layout, batches, outputs, configs, errors."""
