"""Aggregation by key: windows, running aggregates, partial aggregates, state in increments."""
