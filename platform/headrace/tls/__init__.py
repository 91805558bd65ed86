"""TLS between the processes of a cluster, and for its clients: files, their validation, and SSL contexts."""
