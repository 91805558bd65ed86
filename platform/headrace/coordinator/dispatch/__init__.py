"""From REST requests to jobs: the dispatcher, the registry's shell, the job store, and a job's preparation."""
