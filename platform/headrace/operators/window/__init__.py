"""Windowed aggregation: assignment of rows to windows, partial aggregates, lateness, and firing."""
