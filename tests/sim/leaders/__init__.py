"""Coordinators that follow each other: elections, sessions that expire, a ledger, workers, and what befalls them."""
