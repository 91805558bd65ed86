"""The worker process: supervises slot processes, their pipes, logs and folders."""
