"""From REST requests to jobs: the dispatcher, the registry's shell, and a job's preparation."""
