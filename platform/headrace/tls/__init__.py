"""TLS between the processes of a cluster, and for its clients: which files, whether they fit, and contexts of them."""
