"""The version, in the one place the build reads."""

__version__ = "0.1.0"
