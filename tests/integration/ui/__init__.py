"""The page of a cluster in a real browser."""
