"""Drivers of `replay` and `follow` in a world that fails: the product's machine, shell, journal and leftovers over a
simulated store, Spark and sink."""
