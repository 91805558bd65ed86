"""Figures of a job that users see: rates, sizes, checkpoints. Pure; no decision about a job depends on them."""
