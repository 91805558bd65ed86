"""The connection to a JVM that this process has started, by py4j: what Spark's and YARN's clients share."""
