"""Savepoints from and to DataFrames."""
