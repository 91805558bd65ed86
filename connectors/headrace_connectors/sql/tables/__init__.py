"""The tables of a SQL sink: their definition, their validation, and statements over them."""
