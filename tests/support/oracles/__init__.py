"""Slow and plain answers to compare with, and what drives one operator or one format by hand."""
