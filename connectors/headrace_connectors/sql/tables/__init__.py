"""The tables of a SQL sink: what they look like, whether they fit, statements over them."""
