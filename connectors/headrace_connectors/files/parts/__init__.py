"""The files of a sink: their names, their folder, and how staged ones are published."""
