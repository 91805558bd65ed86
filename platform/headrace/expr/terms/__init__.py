"""Typed terms: for each kind of expression its value, its type, and the rows for which it fails."""
