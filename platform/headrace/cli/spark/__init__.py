"""Commands that run on Spark: `replay`, `verify`, and their drivers on a cluster."""
