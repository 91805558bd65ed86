"""Aggregation by key: windows, running aggregates, partial aggregates, incremental state."""
