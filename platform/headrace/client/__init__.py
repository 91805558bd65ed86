"""What talks to a cluster from outside: the REST models and the HTTP client that the CLI and the Python API use."""
