"""CUDA machinery: graphs, static shapes, and whether Triton works here."""
