"""Streaming metrics, each with a 95 % interval and a signature.

A metric is a class with two methods: call `add(...)` once per example, then `result()` to get a `Score`. Memory use
does not grow with the number of examples.
"""
