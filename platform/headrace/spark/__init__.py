"""The Spark engine: a pipeline over a bounded range of its sources, or in increments, in tasks of a Spark cluster.

Spark schedules, retries and shuffles opaque blobs; what happens to rows is done by the operators that run live, opened
by the worker's own code. Importing this package, or anything in it but what says so, does not import pyspark.
"""
