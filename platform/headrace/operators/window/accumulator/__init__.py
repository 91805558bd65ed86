"""Partial aggregates as columns: computed per batch, merged in any order, finished to SQL results."""
