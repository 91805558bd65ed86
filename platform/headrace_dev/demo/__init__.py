"""The demonstration: a year of real flights through a real broker and one pipeline, checked against a batch query."""
