"""The command line: command to function, no logic."""
