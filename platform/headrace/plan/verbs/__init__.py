"""Planners of steps, one module a verb: they check names and types against the input. `table` lists them. Pure."""
