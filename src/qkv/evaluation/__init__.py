"""How good is it: metrics that stream, each with a 95 % interval and a signature.

A metric is a class with `add(...)`, called once per example, and `result()`, which gives a `Score`. Memory does not
grow with the number of examples.
"""
