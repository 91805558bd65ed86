"""The closed table of functions: what a name means for which types."""
