"""The connection to a JVM that this process has started, by py4j. Spark's and YARN's clients share it."""
