"""Keyed state as sorted, immutable runs of columns, and the index of recent keys."""
