"""Replays in a user's Spark session from Python: `headrace.spark.replay` and `verify`, and what they return."""
