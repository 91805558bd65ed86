"""Typed terms: what each kind of expression computes, its type, and the rows that it fails for."""
