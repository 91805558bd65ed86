"""Object stores with one conditional put: folders, S3, HDFS, and any fsspec scheme for savepoints."""
