"""HDFS without a JVM: requests to the NameNodes and DataNodes of a file system over WebHDFS."""
