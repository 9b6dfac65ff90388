"""`python -m qkv` is `qkv`."""

from qkv.cli.main import run

run()
