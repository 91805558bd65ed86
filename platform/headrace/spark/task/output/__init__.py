"""The sending ends of a Spark task: blobs for other tasks, partial aggregates, staged result rows."""
