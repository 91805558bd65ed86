"""Decisions of the operator: from a spec, a status and an observation to the next status and the next step. Pure."""
