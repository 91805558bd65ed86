"""Windowed aggregation: which windows a row belongs to, partial aggregates, lateness, and firing."""
