"""The reference in an installed headrace: pages, steps, errors."""
