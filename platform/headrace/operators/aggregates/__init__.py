"""Aggregate functions: partial aggregates as columns, merged in any order, then turned into SQL results."""
