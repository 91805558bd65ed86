"""Partial aggregates as columns: computed per batch, merged in any order, then turned into SQL results."""
