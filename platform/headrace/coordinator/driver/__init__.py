"""One job's driver: executes the effects of the job's machine. Blocking calls to storage run one after the other in
threads of the job (`storage_queue`)."""
