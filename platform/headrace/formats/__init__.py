"""Formats convert messages to columns and back, a whole batch at a time. A decoder returns good rows and bad messages.

Each module (or package) is one format and exports `FORMAT`, which an entry point names.
"""
