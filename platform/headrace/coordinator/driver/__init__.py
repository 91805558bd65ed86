"""One job's driver: executes the effects of the job's machine, on its own threads and storage lane."""
