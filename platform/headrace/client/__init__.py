"""External clients of a cluster: the REST models and the HTTP client that the CLI and the Python API use."""
