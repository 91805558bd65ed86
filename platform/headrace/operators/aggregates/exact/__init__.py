"""Exact sums: limbs of floats, whole numbers, and their one rounding."""
