"""The parts: each takes plain keyword arguments and knows nothing of configs or families."""
