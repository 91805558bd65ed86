"""Pipelines run whole: against oracles, from files that name them, and disturbed in every way on a cluster."""
