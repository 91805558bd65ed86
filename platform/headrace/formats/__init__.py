"""Formats turn messages into columns and back, a whole batch at a time; bad messages come back beside the good rows.

Each module (or package) is one format and exports `FORMAT`, which an entry point names.
"""
