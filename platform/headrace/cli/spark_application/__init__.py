"""A folder of its own for the file that spark-submit runs: Spark puts that file's folder on the import path."""
