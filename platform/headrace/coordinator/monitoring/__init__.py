"""Metrics of jobs and clusters for Prometheus: one registry of definitions, from which values and docs are made."""
