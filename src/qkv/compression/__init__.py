"""Smaller and faster models: the CPU engine, and weights in int8."""
