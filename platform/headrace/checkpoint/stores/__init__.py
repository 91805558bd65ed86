"""Object stores with one conditional put: folders, S3, and any fsspec scheme for savepoints."""
