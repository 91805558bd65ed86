"""The files of a sink: their names, their folder, and the publication of staged ones."""
