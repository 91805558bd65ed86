"""A separate folder for the file that spark-submit runs: Spark adds that file's folder to the import path."""
