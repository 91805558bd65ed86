"""Partial aggregates as columns: made per batch, merged in any order, finished to SQL results."""
