"""Rows by key and time: groups with exact sums, key hashes, event times."""
