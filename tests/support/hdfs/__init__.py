"""HDFS on loopback for tests."""
