"""The vocabulary that every other package shares. Imports nothing of headrace and does no I/O."""
