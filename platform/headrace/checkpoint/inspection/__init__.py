"""Reads state for users: rows of one key, of a condition or all of them, and the difference of two cuts."""
