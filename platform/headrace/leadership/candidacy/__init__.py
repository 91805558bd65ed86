"""Decisions that follow from an election. Pure."""
