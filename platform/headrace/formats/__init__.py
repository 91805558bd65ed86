"""Formats convert messages to columns and back, a whole batch at a time; bad messages are returned beside the good
rows.

Each module (or package) is one format and exports `FORMAT`, which an entry point names.
"""
